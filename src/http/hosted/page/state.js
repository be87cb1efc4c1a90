// What the service says about this link, and what this browser remembers of a payment that was begun.

import { Trouble } from './sign.js';

const boot = JSON.parse(document.getElementById('boot').textContent);

export const { words, locale, page } = boot;

const listeners = [];
let link = boot.link;
/** What the clock of the service is ahead of this one. */
let ahead = Date.parse(link.serverTime) - Date.now();

export const current = () => link;
export const now = () => Date.now() + ahead;

/** Calls `changed(before, after)` whenever the service says something new. */
export const watch = (changed) => listeners.push(changed);

const ROOT = location.pathname.replace(/\/$/, '');
export const path = (name) => `${ROOT}/${name}`;

/** Kinds of trouble by the status of an answer. */
const KINDS = { 403: 'refused', 404: 'gone', 409: 'done', 410: 'gone', 413: 'connection', 429: 'connection' };

async function call(name, options) {
  let answer;
  try {
    answer = await fetch(path(name), { cache: 'no-store', credentials: 'omit', ...options });
  } catch {
    throw new Trouble('connection');
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok) return body;
  const kind = KINDS[answer.status] ?? (answer.status < 500 ? 'other' : 'connection');
  throw new Trouble(kind, body?.message ?? String(answer.status));
}

/** Asks for the state of the link, with what it means for `wallet` where one is named. */
export async function refresh(wallet) {
  const fresh = await call(wallet ? `state?wallet=${encodeURIComponent(wallet)}` : 'state');
  const before = link;
  // An answer that names no wallet may hide what was shown to one.
  const { details, network, redirect } = fresh.details || wallet ? fresh : before;
  link = { ...fresh, details, network, redirect, wallet: wallet ? fresh.wallet : before.wallet };
  ahead = Date.parse(link.serverTime) - Date.now();
  for (const changed of listeners) changed(before, link);
  return link;
}

/** Transactions that pay what is due now; never kept, since they are for what was due when they were made. */
export const calldata = (wallet) => call(`calldata?wallet=${encodeURIComponent(wallet)}`);

const post = (name, body) =>
  call(name, { method: 'POST', keepalive: true, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

/** Says that a transaction is on its way, so that other visitors of the link can be warned. */
export const intend = (txHash, payerAddress) => post('intent', { txHash, payerAddress }).catch(() => null);

const attempted = ({ from, nonce }) => ({ wallet: from, nonce: nonce ?? undefined });

/** Says that a wallet is going to be asked, so that other visitors are warned; whether they warn of attempts of their own. */
export const attempt = async (asked) => (await post('attempt', attempted(asked)))?.hasOthers;

/** Says that this led to no payment. */
export const withdraw = (asked) => post('attempt/withdraw', attempted(asked)).catch(() => null);

export const KEY = `pay:${link.token}`;

/** What is remembered where the browser keeps nothing, as in a private window. */
let kept = null;

/**
 * What is remembered: `{ wallet, account, phase, hash, calls, allowing, asked }`. What the wallet was asked for stays in
 * `asked` until it is known what became of it; the hash of a permission is in `allowing`.
 */
export function remembered() {
  try {
    return kept ?? JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

export function remember(further) {
  const all = further && { ...remembered(), ...further };
  try {
    if (further) localStorage.setItem(KEY, JSON.stringify(all));
    else localStorage.removeItem(KEY);
    kept = null;
  } catch {
    kept = all ?? {};
  }
}

/** Whether a payment or a permission is on its way, or may be. */
export function isPending() {
  const { hash, calls, allowing, asked } = remembered();
  return Boolean(hash || calls || allowing || asked);
}
