// What both queues do with a job: sign it and post it, over keep-alive connections.
import { createHmac } from "node:crypto";
import { Pool } from "undici";

/** Posts in flight. */
export const CONCURRENCY = 50;

export function sender(url, secret) {
  const { origin, pathname } = new URL(url);
  const pool = new Pool(origin, { connections: CONCURRENCY, pipelining: 1 });
  const post = async ({ id, body }) => {
    const { statusCode, body: answer } = await pool.request({
      method: "POST",
      path: pathname,
      headers: {
        "content-type": "application/json",
        "x-service-signature": createHmac("sha256", secret).update(body).digest("hex"),
        "x-service-delivery": id,
      },
      body,
    });
    await answer.dump();
    if (statusCode >= 300) throw new Error(`answered ${statusCode}`);
  };
  return { post, close: () => pool.close() };
}

export function jobs(count, body) {
  return Array.from({ length: count }, (_, number) => ({ id: `delivery-${number}`, body }));
}

/** Reads the input that the bench wrote to standard input. */
export async function input() {
  let text = "";
  for await (const part of process.stdin) text += part;
  return JSON.parse(text);
}

export function report(count, begun) {
  console.log(JSON.stringify({ rate: count / ((performance.now() - begun) / 1_000) }));
}
