// The overview: loads samples and examples when an operation is opened, searches, and selects the language of all samples.

import { byId, copier, el, listing, prose } from './elements.js';
import * as first from './first.js';
import { answered, lent } from './room.js';
import { LANGUAGES, call, sample, success } from './samples.js';

const KEPT = 'docs-language';

const documents = new Map();

/** A document by its address, fetched only once. */
function read(address) {
  if (!documents.has(address)) {
    const asked = fetch(address).then(answered);
    asked.catch(() => documents.delete(address));
    documents.set(address, asked);
  }
  return documents.get(address);
}

// Languages

let language = kept();

function kept() {
  let code;
  try {
    code = localStorage.getItem(KEPT);
  } catch {
    // Without storage, the page starts with the default language.
  }
  return LANGUAGES.some(([known]) => known === code) ? code : LANGUAGES[0][0];
}

const nameOf = (code) => LANGUAGES.find(([known]) => known === code)[1];

function speak(code) {
  language = code;
  try {
    localStorage.setItem(KEPT, code);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
  for (const radio of document.querySelectorAll('.languages input')) radio.checked = radio.value === code;
  for (const one of document.querySelectorAll('[data-language]')) one.hidden = one.dataset.language !== code;
  for (const one of document.querySelectorAll('details[open][data-operation]')) open(one);
  first.show(language);
}

// Operations

async function open(details) {
  const { document: address, path, method } = details.dataset;
  const place = details.querySelector('.inside');
  place.setAttribute('aria-busy', 'true');
  try {
    const [contract, keys] = await Promise.all([read(address), lent().catch(() => null)]);
    place.replaceChildren(...(method ? operation(contract, path, method, keys) : told(contract, path)));
  } catch (error) {
    place.replaceChildren(el('p', { class: 'bad', role: 'alert' }, `The document could not be loaded: ${error.message}`));
  }
  place.removeAttribute('aria-busy');
}

function operation(contract, path, method, keys) {
  const described = contract.paths[path][method];
  const written = sample(language, call(contract, path, method, described, location.origin, keys?.credentials));
  const { status, body } = success(contract, described);
  return [
    prose(described.description ?? ''),
    listing(written, `${described.summary} in ${nameOf(language)}`),
    body !== undefined && [
      el('h4', {}, `Response ${status}`),
      listing(typeof body === 'string' ? body : JSON.stringify(body, null, 2), `Response of: ${described.summary}`),
    ],
  ].flat(Infinity).filter(Boolean);
}

function told(contract, event) {
  const { post } = contract.webhooks[event];
  const body = post.requestBody.content['application/json'].example;
  return [...prose(post.description ?? ''), el('h4', {}, 'The body'), listing(JSON.stringify(body, null, 2), `Body of ${event}`)];
}

// Search

function search() {
  const wanted = byId('search').value.trim().toLowerCase().split(/\s+/);
  let count = 0;
  for (const group of document.querySelectorAll('.group')) {
    let isEmpty = true;
    for (const one of group.querySelectorAll('details')) {
      const { says } = one.querySelector('.inside').dataset;
      const text = `${group.dataset.name} ${one.id} ${one.querySelector('summary').textContent} ${says}`.toLowerCase();
      one.hidden = !wanted.every((word) => text.includes(word));
      if (one.hidden) continue;
      isEmpty = false;
      count += 1;
    }
    group.hidden = isEmpty;
  }
  const found = byId('found');
  found.textContent = wanted[0] ? `${count} found` : '';
  byId('nothing').hidden = count > 0;
}

// Deep links

/** The id in the URL fragment. Old links to Swagger UI also lead here: `#/Requests/createRequest`. */
function named() {
  try {
    return decodeURIComponent(location.hash.slice(1)).split('/').at(-1);
  } catch {
    // A fragment that cannot be decoded is not one of our links.
    return '';
  }
}

function follow() {
  const one = byId(named());
  if (one?.localName !== 'details') return;
  // An active search could hide it.
  byId('search').value = '';
  search();
  one.open = true;
  one.scrollIntoView();
}

for (const one of document.querySelectorAll('details[data-operation]')) {
  one.addEventListener('toggle', () => {
    if (!one.open) return;
    history.replaceState(null, '', `#${one.id}`);
    open(one);
  });
}
byId('search').addEventListener('input', search);
for (const languages of document.querySelectorAll('.languages')) {
  languages.hidden = false;
  languages.addEventListener('change', (event) => speak(event.target.value));
}
for (const one of document.querySelectorAll('.listing[data-language]')) {
  const shown = one.querySelector('pre');
  one.append(...copier(shown.textContent, shown.getAttribute('aria-label')));
}
addEventListener('hashchange', follow);
first.begin(read);
speak(language);
follow();
