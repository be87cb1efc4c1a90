// The environment of a generated client: the running service, the chain for payments, a receiver of webhooks.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const WAIT_MS = 30_000;

/** The part of the line of `prs dev --json` that the flow needs. */
export interface Ready {
  baseUrl: string;
  authUrl: string;
  apiKey: string;
  destinationId: string;
  chain: { rpcUrl: string; accounts: [{ address: string }, { address: string }] };
}

export function ready(): Ready {
  const file = process.env['PRS_DEV'];
  if (file === undefined) throw new Error('PRS_DEV has to name the file with the line of `prs dev --json`');
  return JSON.parse(readFileSync(file, 'utf8')) as Ready;
}

/** Prints that a step of the flow passed. */
export function step(name: string): void {
  console.log(`step ${name}`);
}

export function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(what);
}

async function rpc(url: string, method: string, params: unknown[]): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const { result, error } = (await answer.json()) as { result?: unknown; error?: unknown };
  if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}

/** Sends transactions in order from an account that the local node has unlocked. */
export async function send(
  { chain }: Ready,
  transactions: readonly { to: string; data: string; value: string | { hex: string } }[],
): Promise<void> {
  for (const { to, data, value } of transactions) {
    const quantity = typeof value === 'string' ? value : `0x${BigInt(value.hex).toString(16)}`;
    const call = { from: chain.accounts[0].address, to, data, value: quantity };
    const hash = await rpc(chain.rpcUrl, 'eth_sendTransaction', [call]);
    const receipt = await until('a receipt', async () => {
      return (await rpc(chain.rpcUrl, 'eth_getTransactionReceipt', [hash])) as { status: string } | null;
    });
    check(receipt.status === '0x1', `transaction ${String(hash)} failed on the chain`);
  }
}

/** Polls until there is a result. */
export async function until<T>(what: string, ask: () => Promise<T | null | undefined>): Promise<T> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const found = await ask();
    if (found !== null && found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`timed out waiting for ${what} after ${WAIT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Whether the service signed these bytes: an HMAC-SHA-256 over the raw body, keyed with the secret as it was shown. */
export function isSigned(body: Buffer, signature: string, secret: string): boolean {
  const expected = createHmac('sha256', secret).update(body).digest();
  const given = Buffer.from(signature, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

interface Delivery {
  body: Buffer;
  signature: string;
}

/** A receiver of webhooks on a free port of this machine. */
export class Hooks {
  readonly #server = createServer();
  readonly #deliveries: Delivery[] = [];

  async listen(): Promise<string> {
    this.#server.on('request', (request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const signature = request.headers['x-service-signature'];
        if (typeof signature === 'string') this.#deliveries.push({ body: Buffer.concat(parts), signature });
        response.writeHead(typeof signature === 'string' ? 200 : 400).end();
      });
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }

  /** Waits for the event that a request is paid, and checks that its signature matches only its own bytes. */
  async confirmed(requestId: string, secret: string): Promise<void> {
    const { body, signature } = await until(`payment.confirmed of ${requestId}`, () => {
      const found = this.#deliveries.find(({ body }) => {
        const event = JSON.parse(body.toString('utf8')) as { event: string; requestId?: string };
        return event.event === 'payment.confirmed' && event.requestId === requestId;
      });
      return Promise.resolve(found);
    });
    check(isSigned(body, signature, secret), 'the signature does not match the body');
    check(!isSigned(Buffer.concat([body, Buffer.from(' ')]), signature, secret), 'the signature matches another body');
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
