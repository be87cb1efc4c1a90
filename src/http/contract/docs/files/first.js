// The first request: create, prepare and pay it on the local chain, one click each. Without a local chain, the page shows
// the same calls as samples.

import { byId, el, listing } from './elements.js';
import { answered, isOpen, lent, send } from './room.js';
import { call, sample } from './samples.js';

const LOOK_AGAIN_MS = 150;
const PATIENCE_MS = 60_000;

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const part = (step, name) => byId(`step-${step}`).querySelector(name);

let read;

/** Connects the buttons; `reader` loads documents. */
export function begin(reader) {
  read = reader;
  if (!isOpen) return;
  for (const [step, act] of [[1, create], [2, prepare], [3, pay]]) {
    part(step, 'button').addEventListener('click', () => taken(step, act));
  }
  part(1, 'button').disabled = false;
}

/** Shows the calls as samples in a language, if there are no buttons. */
export async function show(language) {
  if (isOpen) return;
  try {
    const contract = await read('/openapi/v2.json');
    for (const place of document.querySelectorAll('[data-call]')) {
      const [method, path] = place.dataset.call.split(' ');
      const operation = contract.paths[path][method];
      place.replaceChildren(listing(sample(language, call(contract, path, method, operation, location.origin)), operation.summary));
    }
  } catch {
    // The static text still describes the steps.
  }
}

let made;
let prepared;

async function taken(step, act) {
  const button = part(step, 'button');
  const place = part(step, '.told');
  button.disabled = true;
  place.replaceChildren();
  try {
    await act(place, await lent());
    button.textContent = 'Done';
    byId(`step-${step}`).classList.add('past');
    const next = step < 3 && part(step + 1, 'button');
    if (next) {
      next.disabled = false;
      next.focus();
    }
  } catch (error) {
    place.replaceChildren(el('p', { class: 'bad', role: 'alert' }, error.message));
    button.disabled = false;
  }
}

const asking = (keys) => ({ 'x-api-key': keys.credentials.ApiKey });
const json = (value) => JSON.stringify(value, null, 2);

async function create(place, keys) {
  const { payee, currency } = keys;
  const body = { payee, amount: '1.5', invoiceCurrency: currency, paymentCurrency: currency };
  const headers = { ...asking(keys), 'content-type': 'application/json' };
  made = await answered(await fetch('/v2/request', { method: 'POST', headers, body: JSON.stringify(body) }));
  place.replaceChildren(
    listing(`POST /v2/request\n${json(body)}`, 'The request'),
    listing(`201 Created\n${json(made)}`, 'The response'),
  );
}

async function prepare(place, keys) {
  const address = `/v2/request/${made.requestId}/pay?wallet=${keys.payer}`;
  prepared = await answered(await fetch(address, { headers: asking(keys) }));
  const { transactions, metadata } = prepared;
  const steps = transactions.map(({ to, data }, index) => {
    const what = index === metadata.paymentTransactionIndex ? 'payment' : 'approval';
    return `${index + 1}. ${what}: ${to}\n   ${data.slice(0, 42)}… ${data.length / 2 - 1} bytes`;
  });
  place.replaceChildren(listing(`GET ${address}\n\n${steps.join('\n')}`, 'The transactions'));
}

async function pay(place, keys) {
  const begun = performance.now();
  const list = el('ol', { class: 'live' });
  const tell = (name, text) => {
    const ms = Math.round(performance.now() - begun);
    list.append(el('li', { 'data-stage': name }, el('span', {}, text), el('span', { class: 'when' }, `${ms} ms`)));
  };
  place.replaceChildren(el('div', { role: 'log', 'aria-label': 'The payment' }, list));
  // The progress appears below the button, which can be outside a small window.
  const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  list.scrollIntoView({ block: 'nearest', behavior: isCalm ? 'instant' : 'smooth' });
  const hashes = await send(prepared.transactions);
  tell('sent', `Sent: ${hashes.at(-1).slice(0, 18)}…`);
  const until = begun + PATIENCE_MS;
  let isSeen = false;
  for (;;) {
    const request = await answered(await fetch(`/v2/request/${made.requestId}`, { headers: asking(keys) }));
    if (!isSeen && (request.detectedAmount || request.hasBeenPaid)) {
      isSeen = true;
      tell('seen', 'Detected on chain');
    }
    if (request.hasBeenPaid) {
      tell('paid', `Final: the request is ${request.status}, amount ${request.paidAmount}`);
      break;
    }
    if (performance.now() > until) throw new Error('The payment was sent but is not final after a minute');
    await pause(LOOK_AGAIN_MS);
  }
  const { events } = await answered(await fetch(`/v2/events?requestId=${made.requestId}`, { headers: asking(keys) }));
  const event = events.find((one) => one.event.startsWith('payment.'));
  if (!event) return;
  tell('told', `Event sent: ${event.event}`);
  place.append(listing(json(JSON.parse(event.body)), 'The event'));
}
