// The golden flow with @hey-api/openapi-ts: every body that is sent or received is validated by its zod schema.

import { createClient as createAuth } from './generated/zod/auth/client/index.js';
import { createWebhook, deleteWebhook } from './generated/zod/auth/index.js';
import { createClient } from './generated/zod/v2/client/index.js';
import {
  createPayout,
  createRequest,
  createSecurePayment,
  getPaymentCalldata,
  getRequest,
  getSecurePayment,
  getSecurePaymentCalldata,
  searchPayments,
} from './generated/zod/v2/index.js';
import { zErrorBody } from './generated/zod/v2/zod.gen.js';
import { Hooks, check, ready, send, step } from './surroundings.js';

const dev = ready();
const headers = { 'x-api-key': dev.apiKey };
const client = createClient({ baseUrl: dev.baseUrl, headers, throwOnError: true });
const auth = createAuth({ baseUrl: dev.authUrl, headers, throwOnError: true });
const throwing = { client, throwOnError: true } as const;
const reference = `typescript-zod-${Date.now()}`;
const [payer, payee] = dev.chain.accounts.map(({ address }) => address) as [string, string];
const asked = { payee, amount: '1.5', invoiceCurrency: 'FAU-sepolia', paymentCurrency: 'FAU-sepolia', reference };

async function pay(requestId: string): Promise<void> {
  const { data } = await getPaymentCalldata({ ...throwing, path: { requestId }, query: { wallet: payer } });
  check('transactions' in data, 'a payment on one chain must not be an intent');
  await send(dev, data.transactions);
}

const hooks = new Hooks();
const url = await hooks.listen();
const { data: hook } = await createWebhook({ client: auth, throwOnError: true, body: { url } });

const once = { 'Idempotency-Key': reference };
const { data: created } = await createRequest({ ...throwing, body: asked, headers: once });
const { data: again } = await createRequest({ ...throwing, body: asked, headers: once });
check(again.requestId === created.requestId, 'an idempotency key must create only once');
step('create');

await pay(created.requestId);
step('pay');

await hooks.confirmed(created.requestId, hook.secret);
step('webhook');

const { data: read } = await getRequest({ ...throwing, path: { requestId: created.requestId } });
check(read.hasBeenPaid, 'a confirmed request must be paid');
const { data: found } = await searchPayments({ ...throwing, query: { requestId: created.requestId } });
check(found.pagination.total === 1 && found.payments[0]?.amount === '1.5', 'the payment must be found by its request');
step('search');

const { data: second } = await createRequest({ ...throwing, body: asked });
await pay(second.requestId);
await hooks.confirmed(second.requestId, hook.secret);
const seen = new Set<string>();
let cursor: string | undefined;
do {
  const query = cursor === undefined ? { reference, limit: '1' } : { reference, limit: '1', cursor };
  const { data: page } = await searchPayments({ ...throwing, query });
  check(page.payments.length <= 1, 'a page must have one payment');
  page.payments.forEach(({ id }) => seen.add(id));
  cursor = page.nextCursor ?? undefined;
} while (cursor !== undefined);
check(seen.size === 2, `two payments must be paged through, not ${seen.size}`);
step('page');

// The document allows it, but the token has fewer digits.
const refused = await createRequest({ client, throwOnError: false, body: { ...asked, amount: '0.0000000000000000001' } });
check(refused.error?.statusCode === 400, 'an amount must have at most the digits of its token');
check(zErrorBody.parse(refused.error).errors?.[0]?.field === 'amount', 'the refusal must name the field');
const missing = { requestId: `01${'0'.repeat(64)}` };
const unknown = await getRequest({ client, throwOnError: false, path: missing });
check(unknown.error?.statusCode === 404, 'an unknown request must not be found');
step('refuse');

const { data: payout } = await createPayout({ ...throwing, body: { ...asked, amount: '2', payerWallet: payer } });
check('paymentReference' in payout, 'a one-time payout must not be recurring');
await send(dev, payout.transactions);
await hooks.confirmed(payout.requestId, hook.secret);
step('payout');

const requests = [{ destinationId: dev.destinationId, amount: '3' }];
const { data: link } = await createSecurePayment({ ...throwing, body: { requests, reference } });
const path = { token: link.token };
const { data: viewed } = await getSecurePayment({ ...throwing, path });
check('amount' in viewed && viewed.amount === '3', 'the link must show its one amount');
const { data: calldata } = await getSecurePaymentCalldata({ ...throwing, path, query: { wallet: payer } });
check('transactions' in calldata, 'one amount must be paid by a list of transactions');
await send(dev, calldata.transactions);
check(link.requestIds[0] !== undefined, 'a link has a request');
await hooks.confirmed(link.requestIds[0], hook.secret);
step('link');

await deleteWebhook({ client: auth, throwOnError: true, path: { webhookId: hook.id } });
hooks.close();
