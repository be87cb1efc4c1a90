// The golden flow with the types of openapi-typescript and the calls of openapi-fetch.

import createClient from 'openapi-fetch';

import type { paths as AuthPaths } from './generated/fetch/auth.js';
import type { components, paths } from './generated/fetch/v2.js';
import { Hooks, check, ready, send, step } from './surroundings.js';

type Schemas = components['schemas'];

const dev = ready();
const headers = { 'x-api-key': dev.apiKey };
const service = createClient<paths>({ baseUrl: dev.baseUrl, headers });
const auth = createClient<AuthPaths>({ baseUrl: dev.authUrl, headers });
const reference = `typescript-fetch-${Date.now()}`;
const [payer, payee] = dev.chain.accounts.map(({ address }) => address) as [string, string];
const asked = { payee, amount: '1.5', invoiceCurrency: 'FAU-sepolia', paymentCurrency: 'FAU-sepolia', reference };

/** The data of a response; throws its typed error. */
function good<T>({ data, error }: { data?: T; error?: Schemas['ErrorBody'] }): T {
  if (data === undefined) throw new Error(`${error?.statusCode} ${error?.message} ${JSON.stringify(error?.errors)}`);
  return data;
}

async function pay(requestId: string): Promise<void> {
  const query = { wallet: payer };
  const answer = good(await service.GET('/v2/request/{requestId}/pay', { params: { path: { requestId }, query } }));
  check('transactions' in answer, 'a payment on one chain must not be an intent');
  await send(dev, answer.transactions);
}

const hooks = new Hooks();
const hook = good(await auth.POST('/v1/webhook', { body: { url: await hooks.listen() } }));

const idempotency = { params: { header: { 'Idempotency-Key': reference } } };
const created = good(await service.POST('/v2/request', { body: asked, ...idempotency }));
const again = good(await service.POST('/v2/request', { body: asked, ...idempotency }));
check(again.requestId === created.requestId, 'an idempotency key must create only once');
step('create');

await pay(created.requestId);
step('pay');

await hooks.confirmed(created.requestId, hook.secret);
step('webhook');

const path = { requestId: created.requestId };
const read = good(await service.GET('/v2/request/{requestId}', { params: { path } }));
check(read.hasBeenPaid, 'a confirmed request must be paid');
const found = good(await service.GET('/v2/payments', { params: { query: { requestId: created.requestId } } }));
check(found.pagination.total === 1 && found.payments[0]?.amount === '1.5', 'the payment must be found by its request');
step('search');

const second = good(await service.POST('/v2/request', { body: asked }));
await pay(second.requestId);
await hooks.confirmed(second.requestId, hook.secret);
const seen = new Set<string>();
let cursor: string | null = null;
do {
  const query = { reference, limit: '1', ...(cursor === null ? {} : { cursor }) };
  const page: Schemas['PaymentSearchResult'] = good(await service.GET('/v2/payments', { params: { query } }));
  check(page.payments.length <= 1, 'a page must have one payment');
  page.payments.forEach(({ id }) => seen.add(id));
  cursor = page.nextCursor;
} while (cursor !== null);
check(seen.size === 2, `two payments must be paged through, not ${seen.size}`);
step('page');

// The document allows it, but the token has fewer digits.
const refused = await service.POST('/v2/request', { body: { ...asked, amount: '0.0000000000000000001' } });
check(refused.error?.statusCode === 400, 'an amount must have at most the digits of its token');
check(refused.error.errors?.[0]?.field === 'amount', 'the refusal must name the field');
const unknown = await service.GET('/v2/request/{requestId}', { params: { path: { requestId: `01${'0'.repeat(64)}` } } });
check(unknown.response.status === 404 && unknown.error?.statusCode === 404, 'an unknown request must not be found');
step('refuse');

const payout = good(await service.POST('/v2/payouts', { body: { ...asked, amount: '2', payerWallet: payer } }));
check('paymentReference' in payout, 'a one-time payout must not be recurring');
await send(dev, payout.transactions);
await hooks.confirmed(payout.requestId, hook.secret);
step('payout');

const link = good(
  await service.POST('/v2/secure-payments', {
    body: { requests: [{ destinationId: dev.destinationId, amount: '3' }], reference },
  }),
);
const { token } = link;
const viewed = good(await service.GET('/v2/secure-payments/{token}', { params: { path: { token } } }));
check('amount' in viewed && viewed.amount === '3', 'the link must show its one amount');
const calldata = good(
  await service.GET('/v2/secure-payments/{token}/pay', { params: { path: { token }, query: { wallet: payer } } }),
);
check('transactions' in calldata, 'one amount must be paid by a list of transactions');
await send(dev, calldata.transactions);
check(link.requestIds[0] !== undefined, 'a link has a request');
await hooks.confirmed(link.requestIds[0], hook.secret);
step('link');

good(await auth.DELETE('/v1/webhook/{webhookId}', { params: { path: { webhookId: hook.id } } }));
hooks.close();
