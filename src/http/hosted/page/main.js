// The payment flow of the page: wallet, checks, signatures, confirmation.
//
// Only the service decides that something is paid. It detects payments by their reference, whichever transaction
// carries them. What a wallet reports about a transaction only selects the error text when no payment arrives. A wallet
// that fails may still have sent the transaction: unless it proves that it did not, the page waits and does not offer a
// second payment.

import * as evm from './sign.js';
import * as state from './state.js';
import { decimal, Mismatch, verify } from './verify.js';
import {
  balance, byId, button, code, copying, countDown, date, dateInZone, due, el, feeRows, heading, line, money, note, quiet, receipt,
  reveal, row, say, short, show, shown, stateText, summarise, t, tick, transaction, waiting, wayBack,
} from './render.js';

const { pause, Trouble } = evm;
const { isTron } = state.current();
const sign = { ...evm, verify, ...(isTron && (await import('./tron.js'))) };
const LOOK_FOR_WALLETS_MS = 2000;
const LOOK_AGAIN_MS = 5000;
const REPLACED_MS = 6000;
const ALLOWANCE_TRIES = 5;
const ALLOWANCE_PAUSE_MS = 1000;
/** How long the transaction count of a wallet must stay unchanged before another attempt is offered. */
const STILL_MS = 15_000;
/** How long the page waits for a payment that may have been sent, and for a mined one that the service does not see. */
const UNSEEN_MS = 600_000;
const UNMATCHED_MS = 60_000;
/** How long a payer who continues is not warned again about attempts of others. */
const CALM_MS = 60_000;
const FORGO_MS = 2000;
/** How far ahead the end of a hint seen on the chain can be: each lookup restarts it. */
const SEEN_MS = 125_000;
/** Kinds of trouble whose text says that nothing was sent. */
const SENT_NOTHING = ['rejected', 'rejectedLater', 'reverted', 'screening', 'other'];

let wallets = [];
let wallet = null;
let account = null;
/** The payment in progress; a later one does not end it. `null` while the page waits for the payer. */
let busy = null;
let isLate = false;
/** The payment in flight that the payer was warned about and accepted. */
let consent = { until: 0, isSeen: false, at: 0 };
/** Steps of the payment in progress, in the order of the list on the page. */
let stages = [];
/** The payment plan found when the wallet was checked. */
let needs = null;
/** What the page last said about why the link cannot be paid now. */
let said = '';

const tell = async (event, further) => {
  const { tell: send } = await import('./telemetry.js');
  const count = state.current().details?.count;
  const about = {
    selected_source_chain: state.current().network?.id,
    payment_type: count > 1 ? 'batch' : 'single',
  };
  send(state.path('events'), event, wallet, account, { ...about, ...further });
};

const free = (own) => {
  if (busy === own) busy = null;
};

const nameOf = (one) => one.name || t('browserWallet');
const named = () => ({ wallet: nameOf(wallet) });

const connected = () =>
  el('p', { class: 'connected' }, el('span', {}, `${nameOf(wallet)} · `, code(short(account))), el('button', { type: 'button', class: 'plain', onclick: forget }, t('change')));

// Choosing a wallet

function choose() {
  if (busy || !['', 'connect', 'connecting'].includes(shown()) || stopped()) return;
  if (wallets.length) {
    const picture = (one) =>
      one.icon ? el('img', { src: one.icon, alt: '', width: 32, height: 32 }) : el('span', { class: 'letter', 'aria-hidden': 'true' }, [...nameOf(one)][0]);
    const entry = (one) =>
      el('li', {}, el('button', { type: 'button', class: 'wallet', 'data-wallet': one.id, onclick: () => connect(one) }, picture(one), el('bdi', {}, nameOf(one))));
    return show('connect', heading(t('choose')), quiet(t('chooseMore')), el('ul', { class: 'wallets' }, wallets.map(entry)));
  }
  if (!isLate) return show('connect', heading(t('choose')), quiet(t('looking')));
  const app = ([name, href, text]) => el('a', { class: 'button second', href, rel: 'noopener noreferrer' }, t(text ?? 'openIn', { wallet: name }));
  const isFirefox = /firefox/i.test(navigator.userAgent);
  show('connect', heading(t('noWallet')), quiet(t('noWalletMore')), isFirefox && quiet(t('firefox')), el('div', { class: 'stack' }, sign.appLinks(state.page).map(app)));
}

function forget() {
  if (busy) return;
  wallet = account = null;
  state.remember({ wallet: null });
  goOn();
}

/** Continues with a pending payment or with the connected wallet; otherwise lets the payer choose one. */
function goOn() {
  if (wallet) return check();
  if (resume()) return;
  byId('action').dataset.screen = 'connecting';
  choose();
}

/** Connects a wallet and checks what it can pay. Quiet: only reconnects a wallet that already knows this page. */
async function connect(one, isQuiet) {
  wallet = one;
  const leave = () => {
    wallet = null;
    choose();
  };
  if (!isQuiet) show('connecting', waiting(), heading(t('connecting', named())), quiet(t('connectingMore')), button(t('cancel'), leave, true));
  let given;
  try {
    given = await sign.account(one, isQuiet);
  } catch (error) {
    if (wallet === one && !isQuiet) failed(error, () => connect(one));
    return false;
  }
  // The payer chose another wallet meanwhile, or the wallet does not know this page.
  if (wallet !== one || !given) return false;
  use(one, given);
  if (!isQuiet) {
    tell('wallet_connected');
    say(t('isConnected'));
    check();
  }
  return true;
}

function use(one, given) {
  wallet = one;
  account = given;
  state.remember({ wallet: one.id, account });
  follow(one);
}

const followed = new Set();

/** Follows account changes in the wallet, except while it signs for the previous account. */
function follow(one) {
  if (followed.has(one.provider) || typeof one.provider.on !== 'function') return;
  followed.add(one.provider);
  one.provider.on('accountsChanged', ([next]) => {
    if (wallet !== one || busy || next?.toLowerCase() === account?.toLowerCase()) return;
    if (!next) return forget();
    account = next;
    state.remember({ account });
    check();
  });
}

// Checking what it can pay

async function check() {
  if (resume()) return;
  show('checking', connected(), waiting(), heading(t('checking')));
  try {
    await state.refresh(account);
    needs = null;
    if (isOpen()) {
      needs = await planned();
      summarise(state.current(), needs.asked);
    }
  } catch (error) {
    // A node that is unresponsive now may respond when the payer pays.
    if (error.kind !== 'connection' || !state.current().wallet) return failed(error, check);
  }
  // Another tab may have sent a payment during these calls.
  if (isSentElsewhere() && resume()) return;
  decide();
}

/** Whether the wallet may pay what it sees. */
function isOpen() {
  const { status, details, wallet: standing } = state.current();
  return status === 'pending' && details && !isStopped() && standing?.decision === 'approved';
}

/** Whether no wallet can pay the open link now: a Safe is about to pay it, or items block a multicall. */
function isStopped() {
  const { status, locked, details } = state.current();
  return status === 'pending' && Boolean(locked || details?.blocked);
}

/** Whether a payment that a wallet approves now may pay a recipient twice, or pay a link that has ended. */
const isStale = () => state.current().status !== 'pending' || isStopped();

/** Shows why no wallet can pay the link now, and what to do; returns false if a wallet can. The page keeps polling. */
function stopped() {
  if (!isStopped()) return false;
  const { locked, details } = state.current();
  const blocked = details?.items.filter((item) => item.state && item.state !== 'ready') ?? [];
  const paid = blocked.filter((item) => item.state === 'paid');
  const screen = locked ? 'locked' : 'blocked-items';
  if (details?.blocked && details.items.length < details.count) {
    // With many recipients, scripts fetch their states. The document already shows some of them.
    byId('action').dataset.screen = screen;
    state.poll(account).then(() => busy || stopped(), () => null);
    return true;
  }
  const now = JSON.stringify([locked, blocked]);
  if (shown() === screen && said === now) return true;
  said = now;
  const entry = (item) =>
    el('li', {}, code(item.payee), ` · ${money(item.amount, details.currencies[item.currency].symbol)} · ${stateText(item)}`);
  const list = (name, items) =>
    el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name }, el('ul', { class: 'blocked' }, items.map(entry)));
  if (locked) {
    // The transaction of the Safe pays all items, also those that are paid since.
    const text = paid.length ? 'lockedPaid' : 'locked';
    const until = el('time', { datetime: locked.until }, dateInZone(locked.until));
    const facts = [locked.safe && row(t('safe'), code(locked.safe)), row(t('lockedUntil'), until)];
    const warning = paid.length > 0 && list(t(text), paid);
    show(screen, waiting(), note('careful', t(text), `${t(`${text}More`)} ${t('updates')}`), warning, el('dl', { class: 'rows' }, facts));
    say(t(text));
    return true;
  }
  const isInProgress = blocked.every((item) => item.state === 'in_progress');
  const text = isInProgress ? 'blockedWait' : 'blocked';
  const more = [t(`${text}More`), isInProgress && t('updates')].filter(Boolean).join(' ');
  show(screen, isInProgress && waiting(), note('careful', t(text), more), list(t('blockedList'), blocked));
  say(t(text));
  return true;
}

function decide() {
  const link = state.current();
  if (link.status === 'completed') return done();
  if (link.status !== 'pending') return location.reload();
  if (stopped()) return;
  if (link.wallet?.decision === 'rejected') return blocked(link.wallet.reason);
  if (link.wallet?.decision === 'error' || !link.details) return failed(new Trouble('screening'), check);
  const { inFlight } = link;
  if (isNews(inFlight)) return warn(inFlight);
  offer();
}

function blocked(reason) {
  const kind = reason === 'wallet_not_allowed' ? 'notAllowed' : 'notAccepted';
  show('blocked', note('bad', t(kind), t(`${kind}More`, { wallet: short(account) })), button(t('another'), forget, true));
}

/** Says that the page cannot pay from a Safe. What a Safe sends pays nothing until all of its owners have signed. */
function refuseSafe() {
  show('blocked-safe', connected(), note('careful', t('safeWallet'), t('safeWalletMore')), button(t('another'), forget, true));
}

/**
 * Whether the payer has not been warned yet about what is in flight. After a payer continues, further attempts do not
 * warn for a while, since they cost a stranger nothing. A payment on the chain always warns.
 */
function isNews(inFlight) {
  if (!inFlight) return false;
  if (inFlight.isSeen && !consent.isSeen) return true;
  const known = inFlight.isSeen ? Math.max(consent.until, state.now() + SEEN_MS) : consent.until;
  return state.now() - consent.at > CALM_MS && Date.parse(inFlight.until) > known;
}

/** Remembers that the payer continues although this payment is in flight. */
function accept(inFlight) {
  if (inFlight) consent = { until: Math.max(consent.until, Date.parse(inFlight.until)), isSeen: inFlight.isSeen, at: state.now() };
}

/** Warns that another visitor may be paying; looks again when the hint expires, or after a minute. */
function warn(inFlight) {
  const go = () => {
    accept(inFlight);
    decide();
  };
  show('inflight', connected(), note('careful', t('inFlight'), t('inFlightMore')), button(t('payAnyway'), go, true));
  setTimeout(() => shown() === 'inflight' && check(), Math.max(1000, Math.min(Date.parse(inFlight.until) - state.now() + 500 || 6e4, 6e4)));
}

function offer() {
  const link = state.current();
  const { details, wallet: standing } = link;
  const { currencies, receiversLeft } = details;
  const fund = ({ currency, balance: held, missing }) => {
    const { symbol } = currencies[currency];
    const text = missing ? t('missing', { amount: money(missing, symbol) }) : t('balance', { amount: balance(held, symbol) });
    return el('div', { class: missing ? 'fund short' : 'fund' }, el('strong', {}, `${symbol} · ${link.network.name}`), el('span', {}, text));
  };
  const coin = link.network.coin;
  const lacksGas = needs && !needs.hasGas;
  const isShort = lacksGas || (needs && !needs.isFunded) || standing?.funds?.some((one) => one.missing);
  const isPartly = currencies.some((one) => one.paid !== '0');
  const total = due(details, needs?.asked);
  const label = receiversLeft > 1 ? t('payMany', { count: receiversLeft, amount: total }) : t('pay', { amount: total });
  show(
    isPartly ? 'partial' : 'options',
    connected(),
    isPartly && note('careful', t('partly'), t('partlyMore', { amount: total })),
    heading(t('payWith')),
    standing?.funds && el('div', { class: 'funds' }, standing.funds.map(fund)),
    lacksGas && el('p', { class: 'fund short' }, t('lacksGas', { coin })),
    el('dl', { class: 'rows' }, parts(details), needs?.gas && row(t('gas'), balance(needs.gas, coin)), row(t('youPay'), total, 'strong')),
    isShort
      ? [note('careful', t('notEnough'), t('notEnoughMore')), whole(), button(t('again'), check, true)]
      : [explained(), button(label, pay)],
  );
}

/** Rows that show who gets which part of a payment with fees. */
function parts({ currencies, items, receiversLeft }) {
  const fees = feeRows(currencies, 'due');
  for (const { address, contractFee, returned } of needs?.asked ?? []) {
    const { symbol } = currencies.find((one) => one.address?.toLowerCase() === address?.toLowerCase());
    if (contractFee) fees.push(row(t('contractFee'), [line(money(contractFee.amount, symbol)), code(contractFee.receiver)]));
    if (returned) fees.push(row(t('returned'), money(returned, symbol)));
  }
  if (!fees.length) return null;
  const left = currencies.filter((one) => one.left !== '0').map((one) => line(money(one.left, one.symbol)));
  const sole = receiversLeft > 1 ? null : items.find((item) => item.due !== '0');
  return [row(t(sole ? 'receiver' : 'receivers'), [left, sole && code(sole.payee)]), fees];
}

const copy = (text) => el('button', { type: 'button', class: 'plain', 'data-copy': text }, t('copy'));
const whole = () => el('p', { class: 'copied' }, code(account), ' ', copy(account));

function explained() {
  return (
    needs &&
    el(
      'details',
      { class: 'explained' },
      el('summary', {}, t('explain')),
      el('p', { class: 'checked' }, t('checked')),
      el('ol', { class: 'calls' }, needs.calls.map(call)),
    )
  );
}

function call({ kind, currency, amount, amounts, receivers, to, spender, data, feeLimit }) {
  const of = (one) => money(decimal(one.amount, one.currency.decimals), one.currency.symbol);
  const text =
    kind === 'pay'
      ? t('callPay', { amount: amounts.map(of).join(' + '), count: receivers })
      : kind === 'reset'
        ? t('callReset', { token: currency.symbol })
        : t('callAllow', { amount: of({ currency, amount }) });
  const place = (name, address) => el('p', { class: 'quiet' }, t(name), ' ', code(address));
  // Calldata contains full addresses, even those that the link masks.
  const isMasked = state.current().details.items.some(({ payee }) => payee.includes('…'));
  const raw = !isMasked && [el('code', { class: 'raw', tabindex: '0' }, data), copy(data)];
  const limit = feeLimit && el('p', { class: 'quiet' }, t('feeLimit', { amount: money(feeLimit, state.current().network.coin) }));
  return el('li', {}, text, place(spender ? 'tokenContract' : 'contract', to), spender && place('spender', spender), limit, raw);
}

/** Verified transactions that pay the amount due now. */
async function planned() {
  const answer = await state.calldata(account);
  return { ...answer, calls: await sign.verify(state.current().details, answer, account) };
}

/** Verified transactions if the page already shows their total; otherwise `null`, and the page shows the new total. */
async function agreed(total) {
  const plan = await planned();
  const { details } = state.current();
  if (due(details, plan.asked) === total) return plan;
  needs = plan;
  summarise(state.current(), needs.asked);
  offer();
  return null;
}

// Paying

/** Pays in one tab at a time; another tab may take over. */
const pay = () => lead({ ifAvailable: true });

async function lead(options) {
  if (busy) return;
  const own = (busy = { isMine: true });
  // A tab that lost its lock shows no result; the other tab does.
  const run = () => payNow(own).then((next) => next?.()).catch((error) => own.isMine && failed(error, pay));
  if (!navigator.locks) return run();
  try {
    await navigator.locks.request(`pay:${state.current().token}`, options, (held) => (held ? run() : otherTab(own)));
  } catch {
    otherTab(own);
  }
}

function otherTab(own) {
  own.isMine = false;
  free(own);
  show('othertab', note('careful', t('otherTab'), t('otherTabMore')), button(t('continueHere'), () => lead({ steal: true })));
}

function stage(now, title, text) {
  const at = stages.indexOf(now);
  const names = { network: 'stageNetwork', allow: 'stageAllow', both: 'stageBoth', pay: 'stagePay', confirm: 'stageConfirm' };
  const entry = (one, index) =>
    el('li', { class: index < at ? 'past' : null, 'aria-current': index === at ? 'step' : null }, t(names[one]));
  const { hash } = state.remembered();
  show(
    `sign-${now}`,
    wallet && account && el('p', { class: 'connected' }, el('span', {}, `${nameOf(wallet)} · `, code(short(account)))),
    waiting(),
    heading(title),
    quiet(text),
    el('ol', { class: 'stages' }, stages.map(entry)),
    now === 'confirm' && [hash && el('p', {}, t('transaction'), ' ', transaction(state.current(), hash)), lookout()],
  );
  say(title);
}

/**
 * Requests a transaction from the wallet after warning other visitors. The page remembers the request until its outcome
 * is known. Throws `unknown` if the wallet may have sent the transaction without returning a hash, or if an attempt
 * that was given up earlier turns out to have been sent.
 */
async function request(kind, { one, from, mine }, run, { left, until, isGood = sign.isHash } = {}) {
  const { network, details } = state.current();
  const nonce = await sign.nextTurn(one, from, network);
  const isFirm = kind !== 'both' && (await sign.isPlain(one, from));
  const isWhole = details.count === 1 || details.currencies.every(({ paid }) => paid === '0');
  const asked = { id: state.newId(), kind, from, nonce, left, until, turn: isFirm ? nonce : null, isWhole };
  try {
    const until = kind === 'allow' ? null : await state.attempt(asked);
    if (until && isNews({ until })) throw new Trouble('warned');
    if (await isRecalled(one)) throw new Trouble('unknown');
    if (!(await sign.isOnNetwork(one, network))) throw new Trouble('network');
    // Another tab may have taken over during these calls.
    mine();
    if (state.isPending()) throw new Trouble('unknown');
  } catch (error) {
    await withdraw(asked);
    throw error;
  }
  state.remember({ asked });
  let answer;
  try {
    answer = await untilAnswered(run, asked, mine);
  } catch (error) {
    if (error?.isHeld) {
      state.amend(asked, { asked: { ...asked, why: error.kind } });
      throw error;
    }
    const refusal = sign.refusalOf(error, kind === 'both');
    if (!refusal) throw new Trouble('unknown');
    await forgo(asked);
    mine();
    if (state.current().isPaid) throw new Trouble('done');
    if (isStale()) throw new Trouble('stopped');
    // If an earlier attempt was sent meanwhile, the page reports that instead of the refusal.
    throw refusal.kind !== 'notBundled' && (await isRecalled(one)) ? new Trouble('unknown') : refusal;
  }
  if (!isGood(answer)) throw new Trouble('unknown');
  const kept = state.answered(asked, answer);
  if (kind === 'pay' && !isTron) state.intend(answer, from);
  mine();
  return kept;
}

/**
 * The response of the wallet. If the link is paid or can no longer be paid, or the request has expired, the page tells the
 * payer to reject. `run` may call its argument between signing and sending.
 */
async function untilAnswered(run, asked, mine) {
  const { kind, until } = asked;
  let isOpen = true;
  const signed = async () => {
    isOpen = false;
    mine();
    if (kind === 'pay') await recheck(asked);
    mine();
    if (isStale()) throw new Trouble('stopped');
    stage(kind, t('onItsWay'), '');
  };
  const look = async (stop) => {
    for (let told = ''; ; ) {
      await pause(LOOK_AGAIN_MS);
      if (isOpen) await state.poll(account).catch(() => null);
      if (!isOpen) return;
      mine();
      if (state.isDead(until)) return stop(sign.held('late'));
      const text = state.current().isPaid ? 'sayNo' : isStale() ? 'sayStop' : state.now() >= until ? 'late' : told;
      if (text !== told) stage(kind, t(text), t(`${text}More`));
      told = text;
    }
  };
  // A tab that lost its lock stops polling.
  const dead = new Promise((_, stop) => look(stop).catch(() => null));
  try {
    return await Promise.race([(async () => run(signed))(), dead]);
  } finally {
    isOpen = false;
  }
}

/** Warns a payer who has signed of new payments in flight; throws unless the payer continues. */
async function recheck(asked) {
  const [until, link] = await Promise.all([state.attempt(asked), state.poll(account)]);
  // The state also counts this attempt.
  const inFlight = link.inFlight?.isSeen ? link.inFlight : until && { until };
  if (!isNews(inFlight)) return;
  await new Promise(async (go, stop) => {
    const cancel = () => stop(new Trouble('warned'));
    show('inflight-signed', note('careful', t('inFlight'), t('inFlightMore')), button(t('payAnyway'), go, true), button(t('cancel'), cancel, true));
    for (; state.now() < asked.until && !isStale(); await pause(FORGO_MS)) await state.poll(account).catch(() => null);
    cancel();
  });
  accept(inFlight);
}

/** Resumes the first given-up attempt that its wallet shows as sent after all. Returns whether there is one. */
async function isRecalled(one) {
  for (const left of state.earlier()) {
    const { network } = state.current();
    const isBack = left.lost && (await sign.isShown(one, left.lost, { from: left.from, network }));
    const hash = isBack ? left.lost : left.hash;
    const count = hash || left.calls ? Infinity : await sign.nextTurn(one, left.from, network);
    if (count === null || (left.nonce === null && count !== Infinity) || count <= left.nonce) continue;
    state.recall({ ...left, hash });
    return true;
  }
  return false;
}

/** Withdraws the warning of an attempt; permissions have none. */
const withdraw = async (attempt) => attempt.kind !== 'allow' && Promise.race([state.withdraw(attempt), pause(FORGO_MS)]);

/** Forgets only this attempt, which pays nothing, and withdraws its warning. */
async function forgo(attempt) {
  if (!attempt) return;
  state.forget(attempt);
  await withdraw(attempt);
}

async function payNow(own) {
  const [one, from, { network, details }] = [wallet, account, state.current()];
  const total = due(details, needs?.asked);
  const mine = () => {
    if (!own.isMine) throw new Trouble('taken');
  };
  const asker = { one, from, mine };
  try {
    if (state.isPending()) throw new Trouble('unknown');
    // The payer may have selected another account.
    const selected = isTron && (await sign.account(one, true));
    if (selected && selected !== from) {
      use(one, selected);
      return check;
    }
    const mustSwitch = !(await sign.isOnNetwork(one, network));
    const first = mustSwitch ? ['network'] : [];
    if (mustSwitch) {
      stages = [...first, 'pay', 'confirm'];
      stage('network', t('inWallet', named()), t('acceptNetwork', { network: network.name }));
      await sign.toNetwork(one, network);
    }
    let plan = await agreed(total);
    if (!plan) return;
    const { steps, isFunded, hasGas } = plan;
    if (!isFunded || !hasGas) throw new Trouble('funds');
    if (steps.length > 1 && (await sign.canBundle(one, from, network))) {
      stages = [...first, 'both', 'confirm'];
      mine();
      stage('both', t('inWallet', named()), t('acceptBoth'));
      const run = () => {
        tell('payment_sent_to_wallet');
        return sign.bundle(one, from, network, steps);
      };
      const asking = request('both', asker, run, { isGood: (id) => typeof id === 'string' && id });
      const id = await asking.catch((error) => (error.kind === 'notBundled' ? null : Promise.reject(error)));
      if (id) {
        tell('payment_approved_in_wallet', { payment_submission_id: id, payment_submission_id_type: 'eip5792_batch_id' });
        return await followBundle(id);
      }
    }
    const count = steps.length;
    stages = [...first, ...(count > 1 ? ['allow'] : []), 'pay', 'confirm'];
    if (count > 1) {
      for (let left = count; left > 1; left--) {
        // Tron transactions are valid only for a short time.
        if (isTron && left < count) plan = await allowed(total, left);
        if (!plan) return;
        const at = plan.steps.length - left;
        if (at < 0) continue;
        const step = plan.steps[at];
        const { kind, currency, amount, until } = plan.calls[at];
        const limit = kind === 'reset' ? t('acceptReset', { token: currency.symbol }) : t('acceptAllow', { amount: money(decimal(amount, currency.decimals), currency.symbol) });
        mine();
        stage('allow', t('inWallet', named()), `${t('confirmation', { index: count - left + 1, count })} ${limit}`);
        const allowing = await request('allow', asker, (signed) => sign.send(one, from, network, step, signed), { left, until });
        await followAllowing(allowing, limit);
      }
      plan = await allowed(total, 1);
      if (!plan) return;
    }
    mine();
    stage('pay', t('inWallet', named()), `${t('confirmation', { index: count, count })} ${t('acceptPay')}`);
    const run = (signed) => {
      tell('payment_sent_to_wallet');
      return sign.send(one, from, network, plan.steps.at(-1), signed);
    };
    const hash = await request('pay', asker, run, { until: plan.calls.at(-1).until });
    tell('payment_approved_in_wallet', { payment_submission_id: hash, payment_submission_id_type: isTron ? 'tron_tx_id' : 'evm_tx_hash' });
    return await followHash(hash);
  } finally {
    free(own);
  }
}

/** The plan once the service sees the allowance and `left` steps; its node may lag. `null` as in `agreed`. */
async function allowed(total, left) {
  for (let tries = 1; ; tries++) {
    const plan = await agreed(total);
    if (!plan || plan.steps.length <= left) return plan;
    if (tries === ALLOWANCE_TRIES) throw new Trouble('allowance');
    await pause(ALLOWANCE_PAUSE_MS);
  }
}

/**
 * Polls the service until everything is paid or, once the transaction is mined, until less is due. Returns `'unseen'`
 * when the page should stop waiting, and `null` when the wait is over.
 */
async function settled(wait) {
  const arrived = () => state.current().details?.currencies.map((one) => one.paid).join();
  const before = arrived();
  for (let ms = 200; !wait.isOver; ms = Math.min(ms + 60, 4000)) {
    await pause(document.hidden ? 8000 : ms);
    const link = await state.refresh().catch(() => null);
    // A link that was withdrawn meanwhile is reported as paid, but not as completed.
    if (link?.isPaid) return link.status === 'completed' ? 'completed' : 'partly';
    if (link && wait.isMined && arrived() !== before) return 'partly';
    if (link && (wait.until ? state.isDead(wait.until) : !link.inFlight?.isSeen && isOverdue(wait))) return 'unseen';
  }
  return null;
}

/**
 * Whether no node shows the transaction after a long time and several lookups, or the transaction is mined and the
 * service sees no payment in it.
 */
function isOverdue({ since, begun, isShown, minedAt }) {
  const now = state.now();
  if (minedAt) return now - minedAt >= UNMATCHED_MS;
  return !isShown && now - since >= UNSEEN_MS && now - begun >= STILL_MS;
}

/** What to do next after a payment was followed to its end. */
async function ended(result, attempt, wait) {
  if (result === 'completed') return done();
  if (result === 'unseen') {
    // For an ended link the service no longer reports the chain. Its page says that a payment may still arrive.
    if (state.current().status !== 'pending') return location.reload();
    if (wait.until) {
      await forgo(attempt);
      throw new Trouble('lapsed');
    }
    state.lose(attempt, Boolean(wait.minedAt));
    throw new Trouble('unknown');
  }
  await forgo(attempt);
  state.remember({ phase: null });
  if (state.current().status !== 'pending') return location.reload();
  return goOn;
}

/** Shows that a payment is pending until a wallet that can report on it is connected. */
async function onItsWay(wait) {
  for (let drawn = null; !wait.isOver; await pause(300)) {
    if (drawn !== wallets.length || wallet) stage('confirm', t('onItsWay'), t('mayClose'));
    if (wallet) return;
    drawn = wallets.length;
  }
}

/** The account that got the prompt, and the network; a hidden link reveals its network only to a wallet. */
const askerOf = (asked) => ({ from: asked?.from ?? account, network: state.current().network });

const waitFor = (asked) => ({ isOver: false, isMined: !wallet || isTron, since: asked?.at, until: asked?.until, begun: state.now() });

async function followHash(hash) {
  const { asked } = state.remembered();
  const wait = waitFor(asked);
  const truth = settled(wait);
  const watched = { turn: asked?.turn ?? null, isOver: () => wait.isOver, slow: () => say(t('slow')), shows: (isShown) => (wait.isShown = isShown) };
  const told = onItsWay(wait).then(() => sign.outcome(wallet, hash, askerOf(asked), watched));
  try {
    const first = await Promise.race([truth, told]);
    if (first === 'done') Object.assign(wait, { isMined: true, minedAt: state.now() });
    const isLost = ['replaced', 'reverted'].includes(first);
    const arrived = await (isLost ? Promise.race([truth, pause(first === 'replaced' ? REPLACED_MS : 0)]) : truth);
    if (arrived) return await ended(arrived, asked, wait);
    // The replacement may be the same payment at a higher gas price that the service has not seen yet.
    if (first === 'replaced') state.amend(asked, { hash: null, phase: 'allowed' });
    else await forgo(asked);
    throw new Trouble(first);
  } finally {
    wait.isOver = true;
  }
}

async function followBundle(id) {
  const { asked } = state.remembered();
  const wait = waitFor(asked);
  const truth = settled(wait);
  onItsWay(wait);
  try {
    for (let ms = 400; ; ms = Math.min(ms + 100, 4000)) {
      const arrived = await Promise.race([truth, pause(ms)]);
      if (arrived) return await ended(arrived, asked, wait);
      if (!wallet) continue;
      const { state: now, hash } = await sign.bundleState(wallet, id);
      if (hash && !state.remembered().hash) {
        state.amend(asked, { hash });
        state.intend(hash, asked?.from ?? account);
      }
      if (now === 'pending') continue;
      if (now === 'done') Object.assign(wait, { isMined: true, minedAt: state.now() });
      if (now === 'done') return await ended(await truth, asked, wait);
      if (now === 'unknown') return await ended('unseen', asked, wait);
      await forgo(asked);
      throw now === 'failed' ? new Trouble('other', '400') : new Trouble('reverted');
    }
  } finally {
    wait.isOver = true;
  }
}

/** Waits for a pending permission so that the payer does not give it twice. */
async function followAllowing({ hash, from, turn, at, left, until }, text = '') {
  stage('allow', t('onItsWay'), text);
  const asker = { from, network: state.current().network };
  const result = until
    ? await seenAllowance(left, until)
    : await sign.outcome(wallet, hash, asker, { turn, isOver: () => state.now() - at > UNSEEN_MS });
  if (result !== 'reverted') state.allowed({ from, turn });
  else {
    state.remember({ allowing: null });
    throw new Trouble(until ? 'lapsed' : 'reverted');
  }
  return check;
}

/** The outcome of a permission on Tron. */
async function seenAllowance(left, until) {
  for (let ms = 1000; ; ms = Math.min(ms + 500, 4000)) {
    await pause(ms);
    await state.poll(account).catch(() => null);
    const isOver = state.isDead(until);
    if (state.current().isPaid || (await planned().catch(() => null))?.steps.length < left) return 'done';
    if (isOver) return 'reverted';
  }
}

/**
 * Waits for a request whose outcome the wallet did not report; returns what to do next. Another payment is offered, to
 * a payer who accepts that it may be paid twice, once the wallet's transaction count has stayed unchanged for a while,
 * or after a long time if it changed or is unavailable. An unchanged count proves nothing, since a wallet may send a
 * transaction that its node does not show. A payment seen on the chain is always waited for. On Tron the page waits until
 * the transaction can no longer arrive, and asks again by itself if the payer was too slow.
 */
async function followUnknown(asked) {
  const { id, kind, from, turn, nonce, left, until, why } = asked;
  const since = asked.since ?? state.now();
  state.amend(asked, { asked: { ...asked, since } });
  let go;
  const chosen = new Promise((resolve) => (go = resolve));
  let last = null;
  const again = () => {
    state.giveUp(asked, last);
    go(goOn);
  };
  let hasMoved = false;
  let still = state.now();
  let drawn = '';
  const draw = (screen) => {
    const now = [screen, Boolean(wallet), wallets.length].join();
    if (now !== drawn) unclear(screen, asked, again);
    drawn = now;
  };
  draw('unknown');
  for (let ms = 300; ; ms = Math.min(ms + 150, 3000)) {
    const next = await Promise.race([chosen, pause(ms)]);
    if (next) return next;
    const link = await state.poll(account).catch(() => null);
    if (link?.isPaid) return ended(link.status === 'completed' ? 'completed' : 'partly', asked);
    // Another tab or a late wallet response has brought news.
    const known = state.remembered();
    if (known.asked?.id !== id || known.hash || known.calls || known.allowing) return goOn;
    if (!link) continue;
    if (kind === 'allow' && (await planned().catch(() => null))?.steps.length < left) {
      state.allowed({ from, turn: nonce });
      return goOn;
    }
    if (until) {
      if (!state.isDead(until)) continue;
      await forgo(asked);
      return wallet && why === 'late' ? pay : goOn;
    }
    const count = wallet && (await sign.nextTurn(wallet, from, state.current().network));
    last = count ?? last;
    hasMoved ||= turn !== null && count > turn;
    if (hasMoved || turn === null || count === null) still = state.now();
    const isLong = asked.isMined || state.now() - since >= UNSEEN_MS;
    const isStill = state.now() - (kind === 'allow' ? since : still) >= STILL_MS;
    const screen = link.inFlight?.isSeen ? 'unknown' : isStill ? 'unknown-unseen' : isLong ? 'unknown-risk' : 'unknown';
    draw(screen);
  }
}

function unclear(screen, { kind, isMined, why }, again) {
  const unseen = kind === 'allow' ? 'unseenAllow' : 'unseen';
  const name = why === 'late' ? why : { unknown: 'unclear', 'unknown-unseen': unseen, 'unknown-risk': isMined ? 'unmatched' : 'risk' }[screen];
  const offer = screen === 'unknown' ? lookout() : kind === 'allow' ? button(t('retry'), again) : accepted(again);
  show(screen, screen === 'unknown' && waiting(), note('careful', t(name), t(`${name}More`)), offer);
  say(t(name));
}

/** A button that connects the asked wallet, so that its count can be read; `null` if it is connected. */
function lookout() {
  const one = wallets.find(({ id }) => id === state.remembered().wallet) ?? wallets[0];
  if (wallet || !one || isTron) return null;
  const look = async () => {
    const given = await sign.account(one).catch(() => null);
    if (given && !wallet) use(one, given);
  };
  return button(t('connectToLook'), look, true);
}

function accepted(again) {
  const go = () => {
    accept(state.current().inFlight);
    again();
  };
  const on = button(t('payAnyway'), go, true);
  on.disabled = true;
  const box = el('input', { type: 'checkbox', onchange: () => (on.disabled = !box.checked) });
  return [el('label', { class: 'accept' }, box, t('accept')), on];
}

/** The payer's own transaction if only others paid the link and a node shows the payer's too. */
async function surplus({ txHash, details }) {
  const { asked, ...known } = state.remembered();
  const hash = known.hash ?? asked?.lost;
  const paying = (details?.isMulticall ? details.items.map((item) => item.txHash) : [txHash]).filter(Boolean);
  const isOwn = paying.some((one) => one.toLowerCase() === hash?.toLowerCase());
  if (!hash || !paying.length || !asked?.isWhole || isOwn) return null;
  // On Tron the service has sent it.
  return isTron || (wallet && (await sign.isShown(wallet, hash, askerOf(asked)))) ? hash : null;
}

async function done() {
  const link = state.current();
  const own = await surplus(link);
  state.remember(null);
  byId('expiry')?.remove();
  byId('elsewhere').hidden = true;
  byId('to').textContent = t(link.flow === 'pay' ? 'paidOut' : 'paidTo');
  const facts = [
    row(t('paidAt'), el('time', { datetime: link.completedAt }, date(link.completedAt))),
    link.txHash && row(t('transaction'), transaction(link, link.txHash)),
  ];
  show('success', tick(), heading(t('complete')), quiet(t('completeMore')), own && note('careful', t('twice'), t('twiceMore'), el('p', {}, transaction(link, own))), el('dl', { class: 'rows' }, facts.filter(Boolean)), el('div', { class: 'stack' }, wayBack(link), receipt()));
  document.title = `${t('complete')} · ${document.title}`;
  say(t('complete'));
}

// Errors

function failed(error, again) {
  const trouble = error instanceof Mismatch ? new Trouble('mismatch', t(`why_${error.why}`)) : sign.troubleOf(error);
  const { kind, detail } = trouble;
  if (kind === 'taken') return;
  if (kind === 'unknown' || kind === 'late') return void goOn();
  if (kind === 'warned') return void check();
  if (kind === 'safe') return void refuseSafe();
  if (kind === 'gone') return location.reload();
  if (kind === 'done') return void state.refresh().then(decide, () => location.reload());
  if (kind === 'refused' || kind === 'stopped') return void refused(kind);
  const isAllowed = kind === 'rejected' && state.remembered().phase === 'allowed';
  const name = isAllowed ? 'rejectedLater' : kind === 'unknownNetwork' ? 'network' : kind;
  const tone = ['rejected', 'busy', 'screening'].includes(kind) ? 'careful' : 'bad';
  // An earlier attempt may have been sent.
  const isUnsure = state.isUnresolved() && SENT_NOTHING.includes(name);
  const more = isUnsure ? 'earlierMore' : `e_${name}More`;
  const text = t(more, { network: state.current().network?.name, detail }).replace(/ ?\(\)$/, '');
  const message = note(tone, t(`e_${name}`), text, kind === 'inactive' && whole());
  const anew = async () => {
    const { asked } = state.remembered();
    if (kind === 'replaced' && asked) state.giveUp(asked, wallet && (await sign.nextTurn(wallet, asked.from, state.current().network)));
    again();
  };
  const isRisk = kind === 'replaced' || state.earlier().length > 0;
  const retry = kind !== 'mismatch' && (isRisk ? accepted(anew) : button(t(isAllowed ? 'goOn' : 'retry'), again));
  show(`error-${kind}`, wallet && account && connected(), message, retry);
}

/** The service refused calldata or an attempt; the state says why. */
async function refused(kind) {
  try {
    await state.refresh(account);
  } catch (error) {
    return failed(new Trouble('connection'), check);
  }
  const { status, wallet: standing } = state.current();
  if (status !== 'pending' || isStopped() || ['rejected', 'error'].includes(standing?.decision)) return decide();
  failed(new Trouble(kind === 'stopped' ? 'connection' : 'screening'), check);
}

// Changes from elsewhere

state.watch((before, after) => {
  if (!before.details && after.details) reveal(after, t('theReceiver'));
  if (JSON.stringify(before.details) !== JSON.stringify(after.details)) summarise(after);
});

const QUIET = /^(connect$|options|partial|othertab|inflight|error|blocked|locked)/;

setInterval(async () => {
  if (document.hidden || busy || !QUIET.test(shown())) return;
  const before = JSON.stringify(state.current().details);
  const link = await state.poll(account).catch(() => null);
  if (!link || busy || !QUIET.test(shown())) return;
  if (link.status !== 'pending') return decide();
  if (stopped()) return;
  if (/^(locked|blocked-items)/.test(shown())) return goOn();
  if (!/^(options|partial)/.test(shown())) return;
  if (JSON.stringify(link.details) !== before) check();
  else if (isNews(link.inFlight)) warn(link.inFlight);
}, LOOK_AGAIN_MS);

/** Whether another tab sent a payment, or may have. */
function isSentElsewhere() {
  const { hash, calls, allowing, asked } = state.remembered();
  return Boolean(hash || calls || allowing || asked?.since);
}

addEventListener('storage', ({ key }) => {
  if (key === state.KEY && QUIET.test(shown()) && isSentElsewhere()) resume();
});

// Start

/** Resumes what was sent, or may have been sent, before a reload or by another tab. */
function resume() {
  const { hash, calls, allowing, asked } = state.remembered();
  const isPayment = hash || calls || (!allowing && asked && asked.kind !== 'allow');
  if (busy || !state.isPending() || !(wallet || isPayment)) return false;
  const own = (busy = {});
  stages = [isPayment ? 'pay' : 'allow', 'confirm'];
  const follow = () => {
    if (hash) return followHash(hash);
    if (calls) return followBundle(calls);
    return allowing ? followAllowing(allowing) : followUnknown(asked);
  };
  const going = follow().finally(() => free(own));
  going.then((next) => next?.()).catch((error) => failed(error, goOn));
  return true;
}

function begin() {
  const before = state.remembered();
  let isAsked = false;
  sign.discover(async (found) => {
    wallets = found;
    const known = before.wallet && found.find((one) => one.id === before.wallet);
    if (known && !isAsked && !wallet) {
      isAsked = true;
      if (await connect(known, true)) return void (busy || check());
      if (wallet === known) wallet = null;
    }
    choose();
  });
  choose();
  setTimeout(() => {
    isLate = true;
    if (!wallet && !resume()) choose();
  }, LOOK_FOR_WALLETS_MS);
}

/** A long list is fetched when the payer opens it or when a wallet is checked. */
byId('receivers').addEventListener('toggle', ({ target }) => {
  const { details } = state.current();
  if (target.open && details && details.items.length < details.count) state.refresh().catch(() => null);
});

copying();
performance.mark('ready');
if (state.current().status === 'completed') {
  for (const time of document.querySelectorAll('time')) time.textContent = date(time.dateTime);
} else {
  countDown(state.current().expiresAt, () => busy || state.isPending() || location.reload());
  begin();
}
