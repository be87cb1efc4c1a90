// BullMQ: jobs that wait in Redis, posted by one worker. The time ends when the last job is recorded as completed.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { CONCURRENCY, input, jobs, report, sender } from "./post.mjs";

const { url, secret, body, count, redisPort } = await input();
const connection = new Redis(redisPort, "127.0.0.1", { maxRetriesPerRequest: null });
const options = { removeOnComplete: true };
const queue = new Queue("deliveries", { connection });
const waiting = jobs(count, body);
for (let from = 0; from < waiting.length; from += 1_000) {
  const part = waiting.slice(from, from + 1_000);
  await queue.addBulk(part.map((data) => ({ name: "deliver", data, opts: options })));
}
const { post, close } = sender(url, secret);
let completed = 0;
const begun = performance.now();
const worker = new Worker("deliveries", ({ data }) => post(data), { connection, concurrency: CONCURRENCY });
await new Promise((resolve, reject) => {
  worker.on("completed", () => ++completed === count && resolve());
  worker.on("failed", (_, error) => reject(error));
  worker.on("error", reject);
});
report(count, begun);
await worker.close();
await queue.close();
connection.disconnect();
await close();
