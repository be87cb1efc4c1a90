// The way of a payer through the page: wallet, checks, signatures, confirmation.
//
// Only the service says that something is paid; it sees payments by their reference, whichever transaction carries them.
// What a wallet tells about a transaction decides alone what is said when nothing arrives.

import * as sign from './sign.js';
import * as state from './state.js';
import { decimal, Mismatch, verify } from './verify.js';
import { appLinks, discover } from './wallets.js';
import {
  balance, byId, button, code, copying, countDown, date, due, el, feeRows, heading, line, money, note, quiet, receipt,
  reveal, row, say, short, show, shown, summarise, t, tick, transaction, waiting, wayBack,
} from './render.js';

const { pause, Trouble } = sign;
const LOOK_FOR_WALLETS_MS = 2000;
const LOOK_AGAIN_MS = 5000;
const REPLACED_MS = 6000;
const ALLOWANCE_TRIES = 5;
const ALLOWANCE_PAUSE_MS = 1000;

let wallets = [];
let wallet = null;
let account = null;
let isBusy = false;
let isWarned = false;
let isLate = false;
/** Steps of the payment that is being made, as the list beside it shows them. */
let stages = [];
/** What paying would take, as it was found when the wallet was checked. */
let needs = null;

const tell = async (event, further) => {
  const { tell: send } = await import('./telemetry.js');
  const count = state.current().details?.count;
  const about = {
    selected_source_chain: state.current().network?.id,
    payment_type: count > 1 ? 'batch' : 'single',
  };
  send(state.path('events'), event, wallet, account, { ...about, ...further });
};

const nameOf = (one) => one.name || t('browserWallet');
const named = () => ({ wallet: nameOf(wallet) });

const connected = () =>
  el('p', { class: 'connected' }, el('span', {}, `${nameOf(wallet)} · `, code(short(account))), el('button', { type: 'button', class: 'plain', onclick: forget }, t('change')));

// Choosing a wallet

function choose() {
  if (isBusy || !['', 'connect', 'connecting'].includes(shown())) return;
  if (wallets.length) {
    const picture = (one) =>
      one.icon ? el('img', { src: one.icon, alt: '', width: 32, height: 32 }) : el('span', { class: 'letter', 'aria-hidden': 'true' }, [...nameOf(one)][0]);
    const entry = (one) =>
      el('li', {}, el('button', { type: 'button', class: 'wallet', 'data-wallet': one.id, onclick: () => connect(one) }, picture(one), el('bdi', {}, nameOf(one))));
    return show('connect', heading(t('choose')), quiet(t('chooseMore')), el('ul', { class: 'wallets' }, wallets.map(entry)));
  }
  if (!isLate) return show('connect', heading(t('choose')), quiet(t('looking')));
  const app = ([name, href]) => el('a', { class: 'button second', href, rel: 'noopener noreferrer' }, t('openIn', { wallet: name }));
  const isFirefox = /firefox/i.test(navigator.userAgent);
  show('connect', heading(t('noWallet')), quiet(t('noWalletMore')), isFirefox && quiet(t('firefox')), el('div', { class: 'stack' }, appLinks(state.page).map(app)));
}

function forget() {
  if (isBusy) return;
  wallet = account = null;
  state.remember({ wallet: null });
  byId('action').dataset.screen = 'connecting';
  choose();
}

/** Connects a wallet and checks what it can pay; quietly, one that already knows this page, and nothing more. */
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
  // The payer chose something else while the wallet asked, or the wallet knows nothing of this page.
  if (wallet !== one || !given) return false;
  account = given;
  state.remember({ wallet: one.id, account });
  follow(one);
  if (!isQuiet) {
    tell('wallet_connected');
    say(t('isConnected'));
    check();
  }
  return true;
}

const followed = new Set();

/** Accounts that are changed in the wallet, except while it signs for the one before. */
function follow(one) {
  if (followed.has(one.provider) || typeof one.provider.on !== 'function') return;
  followed.add(one.provider);
  one.provider.on('accountsChanged', ([next]) => {
    if (wallet !== one || isBusy || next?.toLowerCase() === account?.toLowerCase()) return;
    if (!next) return forget();
    account = next;
    state.remember({ account });
    check();
  });
}

// Checking what it can pay

async function check() {
  show('checking', connected(), waiting(), heading(t('checking')));
  try {
    await state.refresh(account);
    needs = null;
    if (isOpen()) {
      needs = await planned();
      summarise(state.current(), needs.asked);
    }
  } catch (error) {
    // A node that does not answer now may answer when it comes to paying.
    if (error.kind !== 'connection' || !state.current().wallet) return failed(error, check);
  }
  decide();
}

/** Whether the wallet may pay what it sees. */
function isOpen() {
  const { status, details, wallet: standing } = state.current();
  return status === 'pending' && details && standing?.decision === 'approved';
}

function decide() {
  const link = state.current();
  if (link.status === 'completed') return done();
  if (link.status !== 'pending') return location.reload();
  if (link.wallet?.decision === 'rejected') return blocked(link.wallet.reason);
  if (link.wallet?.decision === 'error' || !link.details) return failed(new Trouble('screening'), check);
  const { inFlight } = link;
  const { hash, calls } = state.remembered();
  const isOwn = Boolean(hash || calls);
  if (inFlight && !isOwn && !isWarned) return warn(inFlight);
  offer();
}

function blocked(reason) {
  const kind = reason === 'wallet_not_allowed' ? 'notAllowed' : 'notAccepted';
  show('blocked', note('bad', t(kind), t(`${kind}More`, { wallet: short(account) })), button(t('another'), forget, true));
}

/** Somebody else may be paying; after a while that is not believed any more. */
function warn(inFlight) {
  const go = () => {
    isWarned = true;
    decide();
  };
  show('inflight', connected(), note('careful', t('inFlight'), t('inFlightMore')), button(t('payAnyway'), go, true));
  setTimeout(() => shown() === 'inflight' && check(), Math.max(1000, Date.parse(inFlight.until) - state.now() + 500));
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
      ? [note('careful', t('notEnough'), t('notEnoughMore')), el('p', { class: 'copied' }, code(account), ' ', copy(account)), button(t('again'), check, true)]
      : [explained(), button(label, pay)],
  );
}

/** Who gets what of a payment with fees. */
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

/** What the wallet will be asked to sign. */
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

function call({ kind, currency, amount, amounts, receivers, to, spender, data }) {
  const of = (one) => money(decimal(one.amount, one.currency.decimals), one.currency.symbol);
  const text =
    kind === 'pay'
      ? t('callPay', { amount: amounts.map(of).join(' + '), count: receivers })
      : kind === 'reset'
        ? t('callReset', { token: currency.symbol })
        : t('callAllow', { amount: of({ currency, amount }) });
  const place = (name, address) => el('p', { class: 'quiet' }, t(name), ' ', code(address));
  // Calldata holds whole addresses, also those that the link masks.
  const isMasked = state.current().details.items.some(({ payee }) => payee.includes('…'));
  const raw = !isMasked && [el('code', { class: 'raw', tabindex: '0' }, data), copy(data)];
  return el('li', {}, text, place(spender ? 'tokenContract' : 'contract', to), spender && place('spender', spender), raw);
}

/** Transactions that pay what is due now, read and found good. */
async function planned() {
  const answer = await state.calldata(account);
  return { ...answer, calls: verify(state.current().details, answer, account) };
}

/** The same while the wallet is asked for what the page said; `null`, with the new sum on the page, when it is another one. */
async function agreed(total) {
  const plan = await planned();
  const { details } = state.current();
  if (due(details, plan.asked) === total) return plan;
  isBusy = false;
  needs = plan;
  summarise(state.current(), needs.asked);
  offer();
  return null;
}

// Paying

/** One tab at a time; another one may take over. */
async function pay() {
  if (isBusy) return;
  const lock = `pay:${state.current().token}`;
  const lead = { isMine: true };
  const run = () => payNow(lead).catch((error) => failed(error, pay));
  if (!navigator.locks) return run();
  const request = async (options, held) => {
    try {
      await navigator.locks.request(lock, options, held);
    } catch {
      lead.isMine = false;
      otherTab(takeOver);
    }
  };
  const takeOver = () => request({ steal: true }, run);
  await request({ ifAvailable: true }, (held) => (held ? run() : otherTab(takeOver)));
}

function otherTab(takeOver) {
  isBusy = false;
  show('othertab', note('careful', t('otherTab'), t('otherTabMore')), button(t('continueHere'), takeOver));
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
    now === 'confirm' && hash && el('p', {}, t('transaction'), ' ', transaction(state.current(), hash)),
  );
  say(title);
}

async function payNow(lead) {
  isBusy = true;
  const [one, from, { network, details }] = [wallet, account, state.current()];
  const total = due(details, needs?.asked);
  const mine = () => {
    if (!lead.isMine) throw new Trouble('taken');
  };
  try {
    const mustSwitch = !(await sign.isOnNetwork(one, network));
    const first = mustSwitch ? ['network'] : [];
    if (mustSwitch) {
      stages = [...first, 'pay', 'confirm'];
      stage('network', t('inWallet', named()), t('acceptNetwork', { network: network.name }));
      await sign.toNetwork(one, network);
    }
    const plan = await agreed(total);
    if (!plan) return;
    let { steps } = plan;
    const { isFunded, hasGas, calls } = plan;
    if (!isFunded || !hasGas) throw new Trouble('funds');
    if (steps.length > 1 && (await sign.canBundle(one, from, network))) {
      stages = [...first, 'both', 'confirm'];
      mine();
      stage('both', t('inWallet', named()), t('acceptBoth'));
      tell('payment_sent_to_wallet');
      const id = await sign.bundle(one, from, network, steps);
      if (id) {
        state.remember({ calls: id, hash: null, phase: 'sent' });
        tell('payment_approved_in_wallet', { payment_submission_id: id, payment_submission_id_type: 'eip5792_batch_id' });
        return await followBundle(id);
      }
    }
    const count = steps.length;
    stages = [...first, ...(count > 1 ? ['allow'] : []), 'pay', 'confirm'];
    if (count > 1) {
      for (const [index, step] of steps.slice(0, -1).entries()) {
        const { kind, currency, amount } = calls[index];
        const limit = kind === 'reset' ? t('acceptReset', { token: currency.symbol }) : t('acceptAllow', { amount: money(decimal(amount, currency.decimals), currency.symbol) });
        mine();
        stage('allow', t('inWallet', named()), `${t('confirmation', { index: index + 1, count })} ${limit}`);
        const turn = await sign.nextTurn(one, from);
        const hash = await sign.send(one, from, step);
        mine();
        stage('allow', t('onItsWay'), limit);
        if ((await sign.outcome(one, hash, from, { turn })) === 'reverted') throw new Trouble('reverted');
        state.remember({ phase: 'allowed' });
      }
      steps = await allowed(total);
      if (!steps) return;
    }
    mine();
    stage('pay', t('inWallet', named()), `${t('confirmation', { index: count, count })} ${t('acceptPay')}`);
    tell('payment_sent_to_wallet');
    const next = await sign.nextTurn(one, from);
    const hash = await sign.send(one, from, steps.at(-1));
    state.remember({ hash, turn: next, calls: null, phase: 'sent' });
    tell('payment_approved_in_wallet', { payment_submission_id: hash, payment_submission_id_type: 'evm_tx_hash' });
    state.intend(hash, from);
    await followHash(hash);
  } finally {
    isBusy = false;
  }
}

/** The payment, made anew once the service sees the allowance, which its node may learn of a little later; `null` like `agreed`. */
async function allowed(total) {
  for (let tries = 1; ; tries++) {
    const plan = await agreed(total);
    if (!plan || plan.steps.length === 1) return plan?.steps;
    if (tries === ALLOWANCE_TRIES) throw new Trouble('allowance');
    await pause(ALLOWANCE_PAUSE_MS);
  }
}

/** Asks the service until everything is paid, or, once the transaction is mined, until less is due; `null` when over. */
async function settled(wait) {
  const arrived = () => state.current().details?.currencies.map((one) => one.paid).join();
  const before = arrived();
  for (let ms = 200; !wait.isOver; ms = Math.min(ms + 60, 4000)) {
    await pause(document.hidden ? 8000 : ms);
    const link = await state.refresh().catch(() => null);
    // Of a link that was withdrawn meanwhile the service says that its money arrived, and not that it is completed.
    if (link?.isPaid) return link.status === 'completed' ? 'completed' : 'partly';
    if (link && wait.isMined && arrived() !== before) return 'partly';
  }
  return null;
}

function ended(result) {
  state.remember(null);
  if (result === 'completed') return done();
  if (state.current().status !== 'pending') return location.reload();
  return wallet ? check() : choose();
}

async function followHash(hash) {
  stage('confirm', t('onItsWay'), t('mayClose'));
  const wait = { isOver: false, isMined: !wallet };
  const truth = settled(wait);
  const { turn } = state.remembered();
  const watched = { turn, isOver: () => wait.isOver, slow: () => say(t('slow')) };
  const told = wallet ? sign.outcome(wallet, hash, account, watched) : truth;
  try {
    const first = await Promise.race([truth, told]);
    wait.isMined ||= first === 'done';
    const isLost = ['replaced', 'reverted'].includes(first);
    const arrived = await (isLost ? Promise.race([truth, pause(first === 'replaced' ? REPLACED_MS : 0)]) : truth);
    if (arrived) return ended(arrived);
    state.remember({ hash: null, phase: 'allowed' });
    throw new Trouble(first);
  } finally {
    wait.isOver = true;
  }
}

async function followBundle(id) {
  stage('confirm', t('onItsWay'), t('mayClose'));
  const wait = { isOver: false, isMined: false };
  const truth = settled(wait);
  try {
    for (let ms = 400; ; ms = Math.min(ms + 100, 4000)) {
      const arrived = await Promise.race([truth, pause(ms)]);
      if (arrived) return ended(arrived);
      const { state: now, hash } = await sign.bundleState(wallet, id).catch(() => ({ state: 'pending' }));
      if (hash && !state.remembered().hash) {
        state.remember({ hash });
        state.intend(hash, account);
      }
      wait.isMined ||= now === 'done';
      if (now === 'done') return ended(await truth);
      if (now === 'pending') continue;
      state.remember({ calls: null, hash: null, phase: null });
      throw new Trouble(now === 'failed' ? 'replaced' : 'reverted');
    }
  } finally {
    wait.isOver = true;
  }
}

function done() {
  const link = state.current();
  state.remember(null);
  byId('expiry')?.remove();
  byId('elsewhere').hidden = true;
  byId('to').textContent = t(link.flow === 'pay' ? 'paidOut' : 'paidTo');
  const facts = [
    row(t('paidAt'), el('time', { datetime: link.completedAt }, date(link.completedAt))),
    link.txHash && row(t('transaction'), transaction(link, link.txHash)),
  ];
  show('success', tick(), heading(t('complete')), quiet(t('completeMore')), el('dl', { class: 'rows' }, facts.filter(Boolean)), el('div', { class: 'stack' }, wayBack(link), receipt()));
  document.title = `${t('complete')} · ${document.title}`;
  say(t('complete'));
}

// What went wrong

function failed(error, again) {
  isBusy = false;
  const trouble = error instanceof Mismatch ? new Trouble('mismatch', t(`why_${error.why}`)) : sign.troubleOf(error);
  const { kind, detail } = trouble;
  if (kind === 'taken') return;
  if (kind === 'gone') return location.reload();
  if (kind === 'done') return void state.refresh().then(decide, () => location.reload());
  if (kind === 'refused') return void refused();
  const isAllowed = kind === 'rejected' && state.remembered().phase === 'allowed';
  const name = isAllowed ? 'rejectedLater' : kind === 'unknownNetwork' ? 'network' : kind;
  const tone = ['rejected', 'busy', 'screening'].includes(kind) ? 'careful' : 'bad';
  const message = note(tone, t(`e_${name}`), t(`e_${name}More`, { network: state.current().network?.name, detail }));
  const retry = kind !== 'mismatch' && button(t(isAllowed ? 'goOn' : 'retry'), again);
  show(`error-${kind}`, wallet && account && connected(), message, retry);
}

/** The service refused calldata: it says why in the state. */
async function refused() {
  try {
    await state.refresh(account);
  } catch (error) {
    return failed(new Trouble('connection'), check);
  }
  const { status, wallet: standing } = state.current();
  if (status !== 'pending' || ['rejected', 'error'].includes(standing?.decision)) return decide();
  failed(new Trouble('screening'), check);
}

// What happens elsewhere

state.watch((before, after) => {
  if (!before.details && after.details) reveal(after, t('theReceiver'));
  if (JSON.stringify(before.details) !== JSON.stringify(after.details)) summarise(after);
});

const QUIET = /^(connect$|options|partial|othertab|inflight|error|blocked)/;

setInterval(async () => {
  if (document.hidden || isBusy || !QUIET.test(shown())) return;
  const before = JSON.stringify(state.current().details);
  const link = await state.refresh().catch(() => null);
  if (!link || isBusy || !QUIET.test(shown())) return;
  if (link.status !== 'pending') return decide();
  if (/^(options|partial)/.test(shown()) && JSON.stringify(link.details) !== before) check();
}, LOOK_AGAIN_MS);

// The beginning

/** Goes on with a payment that was sent before the page was loaded again. */
function resume({ hash, calls }) {
  if (isBusy || !(hash || calls)) return false;
  isBusy = true;
  stages = ['pay', 'confirm'];
  const going = hash || !wallet ? followHash(hash) : followBundle(calls);
  going.catch((error) => failed(error, wallet ? check : choose)).finally(() => (isBusy = false));
  return true;
}

function begin() {
  const before = state.remembered();
  let isAsked = false;
  discover(async (found) => {
    wallets = found;
    const known = before.wallet && found.find((one) => one.id === before.wallet);
    if (known && !isAsked && !wallet) {
      isAsked = true;
      if (await connect(known, true)) return void (resume(state.remembered()) || check());
      if (wallet === known) wallet = null;
    }
    choose();
  });
  choose();
  setTimeout(() => {
    isLate = true;
    if (!wallet && !resume(before)) choose();
  }, LOOK_FOR_WALLETS_MS);
}

/** A long list is fetched once somebody opens it; a wallet that is checked brings it too. */
byId('receivers').addEventListener('toggle', ({ target }) => {
  const { details } = state.current();
  if (target.open && details && details.items.length < details.count) state.refresh().catch(() => null);
});

copying();
performance.mark('ready');
if (state.current().status === 'completed') {
  for (const time of document.querySelectorAll('time')) time.textContent = date(time.dateTime);
} else {
  countDown(state.current().expiresAt, () => isBusy || state.remembered().hash || location.reload());
  begin();
}
