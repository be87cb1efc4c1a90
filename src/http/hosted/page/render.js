// Rendering: elements built without markup from texts, localized numbers and dates, screens, and the summary.

import { current, isUnresolved, locale, now, path, words } from './state.js';
import { decimal, units } from './verify.js';

const SVG = 'http://www.w3.org/2000/svg';
const DRAWN = new Set(['svg', 'path', 'circle']);
const BALANCE_DIGITS = 6;

export const byId = (id) => document.getElementById(id);

/** The text with this name, with `values` filled in. */
export const t = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (_, key) => values[key] ?? '');

/** An element; properties that begin with `on` are listeners, and empty children are left out. */
export function el(tag, properties, ...children) {
  const made = DRAWN.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value == null || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.flat(2).filter((child) => child != null && child !== false));
  return made;
}

/** A decimal text in the format of the language, with all of its digits. */
export function number(text) {
  const [whole, part] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, locale.group);
  return part ? grouped + locale.decimal + part : grouped;
}

const isRightToLeft = document.documentElement.dir === 'rtl';

/** An amount and its currency. In right-to-left text, isolates keep them and several sums in order. */
export function money(text, symbol) {
  const sum = `${number(text)}\u00a0${symbol}`;
  return isRightToLeft ? `\u2066${sum}\u2069` : sum;
}

/** A balance, truncated to a few digits so that it never shows more than the wallet holds. */
export function balance(text, symbol) {
  const [whole, part = ''] = text.split('.');
  const cut = part.slice(0, BALANCE_DIGITS).replace(/0+$/, '');
  return money(cut ? `${whole}.${cut}` : whole, symbol);
}

export const short = (address) => (address.length > 16 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address);

export const date = (iso) =>
  new Intl.DateTimeFormat(`${locale.code}-u-nu-latn`, { dateStyle: 'medium', timeStyle: 'short' }).format(new Date(iso));

/** A time that people in several time zones may compare. */
export function dateInZone(iso) {
  const parts = { year: 'numeric', month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', timeZoneName: 'short' };
  return new Intl.DateTimeFormat(`${locale.code}-u-nu-latn`, parts).format(new Date(iso));
}

export const line = (text) => el('span', { class: 'line' }, text);
export const code = (text) => el('bdi', { class: 'code' }, text);
export const quiet = (text) => el('p', { class: 'quiet' }, text);
export const heading = (text) => el('h2', { tabindex: '-1' }, text);
export const button = (label, onclick, isSecond) =>
  el('button', { type: 'button', class: isSecond ? 'button second' : 'button', onclick }, label);
export const row = (name, value, kind) => el('div', { class: kind }, el('dt', {}, name), el('dd', {}, value));
export const waiting = () => el('div', { class: 'waiting', 'aria-hidden': 'true' });
export const tick = () =>
  el('svg', { class: 'sign good', viewBox: '0 0 24 24', 'aria-hidden': 'true' }, el('circle', { cx: 12, cy: 12, r: 10 }), el('path', { d: 'm7.5 12.5 3 3 6-7' }));

export const note = (kind, title, text, ...further) =>
  el('div', { class: `note ${kind}`, role: kind === 'bad' ? 'alert' : null }, heading(title), el('p', {}, text), further);

/** Announces a text to screen readers. */
export function say(text) {
  const live = byId('live');
  live.textContent = '';
  setTimeout(() => (live.textContent = text), 50);
}

export const shown = () => byId('action').dataset.screen ?? '';

/**
 * Shows a screen and focuses it if it changed. Hides the other-device section while a payment may be on its way, and
 * while no wallet can pay.
 */
export function show(name, ...children) {
  const action = byId('action');
  const isOther = action.dataset.screen && action.dataset.screen !== name;
  action.dataset.screen = name;
  const { status, locked, details } = current();
  byId('elsewhere').hidden = isUnresolved() || status === 'completed' || Boolean(locked || details?.blocked);
  action.replaceChildren(...children.flat(2).filter(Boolean));
  if (isOther) (action.querySelector('h2') ?? action).focus({ preventScroll: matchMedia('(min-width: 52rem)').matches });
  performance.mark(`screen:${name}`);
}

/** A shortened transaction hash that links to its explorer. */
export function transaction(link, hash) {
  const id = link.isTron ? hash.replace(/^0x/, '') : hash;
  if (!link.network) return code(short(id));
  const to = { href: link.network.explorer + id, target: '_blank', rel: 'noopener noreferrer' };
  return el('a', to, code(short(id)));
}

/** The redirect button; `null` if the address is not http(s). */
export function wayBack({ redirect }) {
  if (!redirect || !/^https?:$/.test(new URL(redirect.url).protocol)) return null;
  const { origin, isForeign } = redirect;
  const leads = el('p', { class: 'quiet middle' }, t('leadsTo', { origin }));
  const way = { class: isForeign ? 'button second' : 'button', href: redirect.url, rel: 'noopener noreferrer' };
  return [isForeign && el('p', { class: 'note careful' }, t('foreign', { origin })), el('a', way, redirect.label ?? t('back')), leads];
}

export const receipt = () => el('a', { class: 'button second', href: `${path('receipt')}?lang=${locale.code}`, target: '_blank' }, t('receipt'));

/** The amount to pay in each currency, as one text. */
export const due = ({ currencies }, asked) =>
  currencies.filter((one) => one.due !== '0').map((one) => money(askedFor(one, asked), one.symbol)).join(' + ');

/** The total of a currency, plus what calldata adds to the amount due. */
function whole(one, asked) {
  const of = (text) => units(text, one.decimals);
  return decimal(of(one.total) + of(asked) - of(one.due), one.decimals);
}

/** Rows with each fee receiver and its fee, read from `member`. */
export const feeRows = (currencies, member) =>
  currencies.flatMap((one) => {
    const fees = one.fees.filter((fee) => fee[member] !== '0');
    return fees.map((fee) => row(t('fee'), [line(money(fee[member], one.symbol)), code(fee.receiver)]));
  });

const FEES_MAX = 8;

/** The amount to pay in a currency: from calldata if known, otherwise the amount due without the contract's own fee. */
export const askedFor = (one, asked) =>
  asked?.find((sum) => sum.address?.toLowerCase() === one.address?.toLowerCase())?.amount ?? one.due;

/** Shows the recipient once it is no longer hidden; the name of an operator stays. */
export function reveal({ details }, hidden) {
  const { currencies, items, receivers } = details;
  const name = byId('name');
  if (name.textContent === hidden) name.textContent = receivers === 1 ? short(items[0].payee) : t('someReceivers', { count: receivers });
  const amount = currencies.map((one) => money(one.total, one.symbol)).join(' + ');
  document.title = t('title', { amount, name: name.textContent });
}

/** Redraws the summary when more is known, for example from calldata, or when money has arrived. */
export function summarise({ details, reference, network }, asked) {
  const total = byId('total');
  if (!details) return;
  const { currencies, items } = details;
  total.replaceChildren(
    ...currencies.flatMap((one, index) => [
      index ? ' + ' : '',
      el('bdi', { dir: 'ltr' }, el('span', {}, number(whole(one, askedFor(one, asked)))), ' ', el('span', { class: 'symbol' }, one.symbol)),
    ]),
  );
  const ofEach = (member, isShown) => currencies.filter(isShown).map((one) => line(money(one[member], one.symbol)));
  const some = (member) => (one) => one[member] !== '0';
  const hasFees = currencies.some(some('fee'));
  const fees = feeRows(currencies, 'amount');
  const isPartly = currencies.some((one) => one.paid !== '0' && one.due !== '0');
  byId('rows').replaceChildren(
    ...[
      reference && row(t('reference'), el('bdi', {}, reference)),
      details.receivers === 1 ? row(t('receiver'), code(items[0].payee)) : row(t('receivers'), String(details.receivers)),
      row(t('network'), network.name),
      hasFees && row(t('amount'), currencies.map((one) => line(money(one.gross ?? one.amount, one.symbol)))),
      currencies.some(({ gross }) => gross) && row(t('net'), ofEach('amount', () => true)),
      hasFees && (fees.length && fees.length <= FEES_MAX ? fees : row(t('fee'), ofEach('fee', some('fee')))),
      isPartly && row(t('arrived'), ofEach('paid', some('paid'))),
      isPartly && row(t('stillDue'), currencies.filter(some('due')).map((one) => line(money(askedFor(one, asked), one.symbol))), 'strong'),
    ]
      .flat()
      .filter(Boolean),
  );
  if (items.length > 1) {
    const { isMulticall } = details;
    const marksPaid = !isMulticall && items.some((item) => item.isPaid) && !items.every((item) => item.isPaid);
    const further = (...text) => el('span', { class: 'line quiet' }, text);
    const entry = (item) =>
      el(
        'tr',
        {},
        el('td', {}, code(item.payee), item.reference && further(`${t('reference')}: `, el('bdi', {}, item.reference)), item.network && further(`${t('network')}: ${item.network}`)),
        el('td', { class: 'number' }, money(item.amount, currencies[item.currency].symbol), marksPaid && item.isPaid && further(t('complete'))),
        isMulticall && el('td', { class: 'state' }, stateText(item)),
      );
    byId('receivers').hidden = false;
    if (isMulticall && !byId('state')) itemStates(currencies);
    byId('entries').replaceChildren(...items.map(entry));
    byId('further')?.remove();
    searchable();
  }
}

/** The state of an item of a multicall in words. */
export const stateText = ({ state }) => t(`state_${state}`);

/** Adds the column of states and the row of sums, which the document of a hidden multicall does not contain. */
function itemStates(currencies) {
  const table = byId('entries').parentElement;
  table.tHead.rows[0].append(el('th', { id: 'state', scope: 'col' }, t('state')));
  const sums = currencies.map((one) => line(money(one.amount, one.symbol)));
  table.append(el('tfoot', {}, el('tr', {}, el('th', { scope: 'row' }, t('total')), el('td', { class: 'number' }, sums), el('td'))));
}

const FILTERED_FROM = 50;

/** Adds a search field to a long list of recipients. */
function searchable() {
  const rows = [...byId('entries').children];
  if (rows.length <= FILTERED_FROM) return;
  const narrow = () => {
    const wanted = byId('search').value.trim().toLowerCase();
    for (const one of byId('entries').children) one.hidden = !one.textContent.toLowerCase().includes(wanted);
  };
  if (byId('search')) return narrow();
  const field = el('input', { id: 'search', type: 'search', autocomplete: 'off', spellcheck: 'false', oninput: narrow });
  byId('receivers').querySelector('summary').after(el('label', { class: 'search', for: 'search' }, t('search'), field));
}

const HOUR = 3_600_000;
const MINUTE = 60_000;
const ANNOUNCED_MINUTES = [10, 5, 1];

/** Shows when the link expires: a date, and in its last hour the time left. Calls `ended` when it expires. */
export function countDown(expiresAt, ended) {
  const place = byId('expiry');
  if (!place) return;
  const [name, time] = [place.querySelector('span'), place.querySelector('time')];
  time.textContent = date(expiresAt);
  const announced = new Set();
  const timer = setInterval(() => {
    if (!place.isConnected) return void clearInterval(timer);
    const left = Date.parse(expiresAt) - now();
    if (left <= 0) {
      clearInterval(timer);
      ended();
    } else if (left <= HOUR) {
      const seconds = String(Math.floor((left % MINUTE) / 1000)).padStart(2, '0');
      name.textContent = t('validFor');
      time.textContent = `${Math.floor(left / MINUTE)}:${seconds}`;
      place.classList.toggle('soon', left <= 10 * MINUTE);
      const due = ANNOUNCED_MINUTES.find((minutes) => left <= minutes * MINUTE && left > (minutes - 1) * MINUTE && !announced.has(minutes));
      if (due && announced.add(due)) say(t('minutesLeft', { minutes: due }));
    }
  }, 500);
}

/** Makes buttons copy their `data-copy` text. */
export function copying() {
  document.addEventListener('click', async ({ target }) => {
    const from = target.closest?.('[data-copy]');
    if (!from || !navigator.clipboard) return;
    const label = from.textContent;
    await navigator.clipboard.writeText(from.dataset.copy);
    from.textContent = t('copied');
    say(t('copied'));
    setTimeout(() => (from.textContent = label), 1500);
  });
  if (!navigator.clipboard) for (const one of document.querySelectorAll('[data-copy]')) one.hidden = true;
}
