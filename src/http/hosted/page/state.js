// The state of this link in the service, and what this browser remembers of a started payment.

import { Trouble } from './sign.js';

const boot = JSON.parse(document.getElementById('boot').textContent);

export const { locale, page } = boot;
/** The texts; those for Tron replace others of the same name. */
export const words = { ...boot.words, ...boot.tron };

export const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

const listeners = [];
let link = boot.link;
/** How far the clock of the service is ahead of this one, in milliseconds. */
let ahead = Date.parse(link.serverTime) - Date.now();
/** The solid time that was known when the present state was requested. */
let solid = NaN;

export const current = () => link;
export const now = () => Date.now() + ahead;

/**
 * Whether a Tron transaction that expires at `until` can no longer arrive: the service has credited all payments up to its
 * solid time, and none pays the link. The solid time is older than the rest of the state.
 */
export const isDead = (until) => solid > until && !link.isPaid && !link.inFlight?.isSeen;

/** Calls `changed(before, after)` after each new state. */
export const watch = (changed) => listeners.push(changed);

const ROOT = location.pathname.replace(/\/$/, '');
export const path = (name) => `${ROOT}/${name}`;

/** Kinds of trouble by HTTP status. */
const KINDS = { 403: 'refused', 404: 'gone', 409: 'done', 410: 'gone', 413: 'connection', 423: 'stopped', 429: 'connection' };

/** Kinds of trouble by code. */
const CODES = {
  multicall_validation_failed: 'stopped',
  safe_wallet: 'safe',
  account_not_activated: 'inactive',
  payer_blacklisted: 'frozen',
  fee_limit_exceeded: 'feeTooHigh',
};

async function call(name, options) {
  let answer;
  try {
    answer = await fetch(path(name), { cache: 'no-store', credentials: 'omit', ...options });
  } catch {
    throw new Trouble('connection');
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok) return body;
  const usual = answer.status < 500 ? 'other' : 'connection';
  const kind = CODES[body?.code] ?? KINDS[answer.status] ?? usual;
  throw new Trouble(kind, body?.errors?.[0]?.message ?? body?.message ?? String(answer.status));
}

/** Fetches the state of the link, including the access decision for `wallet` if given. */
export async function refresh(wallet) {
  const { solidTime } = link;
  const fresh = await call(wallet ? `state?wallet=${encodeURIComponent(wallet)}` : 'state');
  const before = link;
  // Without a wallet, and while no wallet can pay, a response may hide what an approved wallet has seen.
  const { details, network, redirect } = fresh.details || fresh.wallet ? fresh : before;
  solid = Date.parse(solidTime);
  link = { ...fresh, details, network, redirect, wallet: wallet ? fresh.wallet : before.wallet };
  ahead = Date.parse(link.serverTime) - Date.now();
  for (const changed of listeners) changed(before, link);
  return link;
}

const isHidden = !boot.link.details;

/** Fetches the state again. A hidden link shows its details only to an approved wallet. */
export const poll = (wallet) => refresh(isHidden ? wallet : null);

/** Transactions that pay the amount due now. */
export const calldata = (wallet) => call(`calldata?wallet=${encodeURIComponent(wallet)}`);

const post = (name, body) =>
  call(name, { method: 'POST', keepalive: true, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

/** Reports a sent transaction so that other visitors of the link are warned. */
export const intend = (txHash, payerAddress) => post('intent', { txHash, payerAddress }).catch(() => null);

/** Lets the service send a signed Tron transaction. */
export const broadcast = (signedTransaction) => post('tron/broadcast', { signedTransaction });

const ID_BYTES = 16;
const OWN_MAX = 50;

/** A random attempt id; a caller that does not know it cannot withdraw the attempt. */
export const newId = () => hexOf(crypto.getRandomValues(new Uint8Array(ID_BYTES)));

/** Reports that a wallet will be asked, to warn other visitors. Returns until when their attempts warn, or `null`. */
export async function attempt({ id, from }) {
  const own = earlier().map((one) => one.id);
  return (await post('attempt', { id, wallet: from, own: own.slice(-OWN_MAX) }))?.othersUntil;
}

/** Withdraws an attempt that led to no payment. */
export const withdraw = ({ id }) => post('attempt/withdraw', { id }).catch(() => null);

export const KEY = `pay:${link.token}`;

/** Memory where the browser stores nothing. */
let kept = null;

/**
 * The remembered state: `{ wallet, account, phase, hash, calls, allowing, asked, earlier }`. `asked` holds the wallet
 * request until its outcome is known, `hash` or `calls` its result, and `allowing` the hash of a permission. `earlier`
 * holds attempts that the payer gave up before their outcome was known; their `lost` is a hash that no node showed
 * then.
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

/** Whether a payment or a permission is pending or may be. */
export function isPending() {
  const { hash, calls, allowing, asked } = remembered();
  return Boolean(hash || calls || allowing || asked);
}

export const earlier = () => remembered().earlier ?? [];

/** Whether something is pending or may be, including attempts that were given up. */
export const isUnresolved = () => isPending() || earlier().length > 0;

const without = (id) => earlier().filter((one) => one.id !== id);
const isCurrent = ({ id }) => remembered().asked?.id === id;
const NOTHING = { asked: null, allowing: null, hash: null, calls: null };

/** Forgets only this attempt, which is known to pay nothing. */
export const forget = (attempt) => remember({ earlier: without(attempt.id), ...(isCurrent(attempt) && NOTHING) });

/** Changes the remembered state of an attempt unless another tab has started a different one. */
export const amend = (attempt, further) => isCurrent(attempt) && remember(further);

/**
 * Treats an attempt as if the wallet had not responded: no node shows its hash (stored in `lost`), or the service sees
 * no payment in the mined transaction. The waiting time counts from the wallet's response.
 */
export function lose(attempt, isMined) {
  const lost = isMined ? null : remembered().hash;
  amend(attempt, { hash: null, calls: null, asked: { ...attempt, turn: null, since: attempt.at, lost, isMined } });
}

/**
 * Gives up an attempt so that the payer can start another one. It may still be sent: the wallet's transaction count was
 * `count`, and a higher one reveals it. A permission pays nothing and is forgotten.
 */
export function giveUp(attempt, count) {
  if (!isCurrent(attempt)) return;
  const nonce = count === null ? attempt.nonce : Math.max(count, attempt.nonce ?? 0);
  const left = { ...attempt, nonce, turn: attempt.turn === null ? null : nonce, since: null, isMined: false };
  remember({ ...NOTHING, earlier: attempt.kind === 'allow' ? earlier() : [...without(attempt.id), left] });
}

/** Resumes an attempt that was given up, because there is news of it. */
export const recall = ({ hash, calls, ...attempt }) =>
  remember({ ...NOTHING, asked: attempt, hash: hash ?? null, calls: calls ?? null, earlier: without(attempt.id) });

/** Stores the wallet's response to an attempt, even if another one has started since; returns what it stored. */
export function answered(attempt, answer) {
  const { id, kind, from, nonce, left, until } = attempt;
  const { asked } = remembered();
  if (kind === 'allow') {
    const allowing = { hash: answer, from, turn: nonce, at: now(), left, until };
    amend(attempt, { allowing, asked: null });
    return allowing;
  }
  const sent = kind === 'both' ? { calls: answer } : { hash: answer };
  const told = { ...attempt, at: now() };
  if (asked && asked.id !== id) remember({ earlier: [...without(id), { ...told, ...sent }] });
  else remember({ ...NOTHING, asked: told, ...sent, earlier: without(id), phase: 'sent' });
  return answer;
}

/** Remembers that a permission is given. Its transaction does not count as news of given-up attempts. */
export function allowed({ from, turn }) {
  const after = (one) => (turn !== null && one.from === from && one.nonce === turn ? { ...one, nonce: turn + 1, turn: one.turn === null ? null : turn + 1 } : one);
  remember({ allowing: null, asked: null, phase: 'allowed', earlier: earlier().map(after) });
}
