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

const ID_BYTES = 16;
const OWN_MAX = 50;

/** What tells an attempt from all others; who does not know it cannot withdraw it. */
export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(ID_BYTES))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/** Says that a wallet is going to be asked, so that other visitors are warned; until when attempts of theirs warn, or `null`. */
export async function attempt({ id, from }) {
  const own = earlier().map((one) => one.id);
  return (await post('attempt', { id, wallet: from, own: own.slice(-OWN_MAX) }))?.othersUntil;
}

/** Says that this led to no payment. */
export const withdraw = ({ id }) => post('attempt/withdraw', { id }).catch(() => null);

export const KEY = `pay:${link.token}`;

/** What is remembered where the browser keeps nothing, as in a private window. */
let kept = null;

/**
 * What is remembered: `{ wallet, account, phase, hash, calls, allowing, asked, earlier }`. What the wallet was asked for
 * stays in `asked` until it is known what became of it, with what it answered in `hash` or `calls`; the hash of a permission
 * is in `allowing`. Attempts that the payer gave up without knowing what became of them are in `earlier`, with a hash that no
 * node showed then in `lost`.
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

export const earlier = () => remembered().earlier ?? [];

/** Whether something is on its way, or may be, counting what was given up. */
export const isUnresolved = () => isPending() || earlier().length > 0;

const without = (id) => earlier().filter((one) => one.id !== id);
const isCurrent = ({ id }) => remembered().asked?.id === id;
const NOTHING = { asked: null, allowing: null, hash: null, calls: null };

/** Forgets an attempt of which it is known that it pays nothing, and no other one. */
export const forget = (attempt) => remember({ earlier: without(attempt.id), ...(isCurrent(attempt) && NOTHING) });

/** Changes what is remembered of an attempt, unless another tab has gone on to another one. */
export const amend = (attempt, further) => isCurrent(attempt) && remember(further);

/**
 * Goes on as if the wallet had not told of an attempt: no node shows what it told (`lost` then), or the service sees no
 * payment in what was mined. How long the payer waits counts from what the wallet answered.
 */
export function lose(attempt, isMined) {
  const lost = isMined ? null : remembered().hash;
  amend(attempt, { hash: null, calls: null, asked: { ...attempt, turn: null, since: attempt.at, lost, isMined } });
}

/**
 * Gives an attempt up, so that the payer can make another one. It may still be sent: the wallet counted `count` transactions
 * then, and one more tells of it. A permission pays nothing, and is forgotten.
 */
export function giveUp(attempt, count) {
  if (!isCurrent(attempt)) return;
  const nonce = count === null ? attempt.nonce : Math.max(count, attempt.nonce ?? 0);
  const left = { ...attempt, nonce, turn: attempt.turn === null ? null : nonce, since: null, isMined: false };
  remember({ ...NOTHING, earlier: attempt.kind === 'allow' ? earlier() : [...without(attempt.id), left] });
}

/** Takes an attempt up again that was given up, since there is news of it. */
export const recall = ({ hash, calls, ...attempt }) =>
  remember({ ...NOTHING, asked: attempt, hash: hash ?? null, calls: calls ?? null, earlier: without(attempt.id) });

/** Remembers what a wallet answered to an attempt, also where another one was begun meanwhile; returns what is remembered. */
export function answered(attempt, answer) {
  const { id, kind, from, nonce } = attempt;
  const { asked } = remembered();
  if (kind === 'allow') {
    const allowing = { hash: answer, from, turn: nonce, at: now() };
    amend(attempt, { allowing, asked: null });
    return allowing;
  }
  const sent = kind === 'both' ? { calls: answer } : { hash: answer };
  const told = { ...attempt, at: now() };
  if (asked && asked.id !== id) remember({ earlier: [...without(id), { ...told, ...sent }] });
  else remember({ ...NOTHING, asked: told, ...sent, earlier: without(id), phase: 'sent' });
  return answer;
}

/** Remembers that a permission is given. Its transaction is no news of attempts that were given up. */
export function allowed({ from, turn }) {
  const after = (one) => (turn !== null && one.from === from && one.nonce === turn ? { ...one, nonce: turn + 1, turn: one.turn === null ? null : turn + 1 } : one);
  remember({ allowing: null, asked: null, phase: 'allowed', earlier: earlier().map(after) });
}
