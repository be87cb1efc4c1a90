// Builds DOM elements from data; strings are never parsed as HTML.

/** Creates an element. Attributes that begin with `on` are listeners; `false` and `null` are omitted. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Inline text: backticks mark code, double asterisks mark strong text. */
const words = (text) =>
  text
    .split('`')
    .map((part, index) => (index % 2 ? el('code', {}, part) : part.split('**').map((piece, at) => (at % 2 ? el('strong', {}, piece) : piece))));

const list = (text) => el('ul', {}, text.slice(2).split('\n- ').map((item) => el('li', {}, words(item))));

/** Paragraphs and lists of a description. */
export const prose = (text) => text.split(/\n\s*\n/).map((part) => (part.startsWith('- ') ? list(part) : el('p', {}, words(part))));

/** A copy button for a listing; `name` is its label for screen readers. */
export function copier(text, name) {
  const copied = el('span', { class: 'unseen', role: 'status' });
  const copy = async (event) => {
    try {
      await navigator.clipboard.writeText(text);
      event.target.textContent = copied.textContent = 'Copied';
    } catch {
      event.target.textContent = copied.textContent = 'Copy failed';
    }
    setTimeout(() => {
      event.target.textContent = 'Copy';
      copied.textContent = '';
    }, 1500);
  };
  return [el('button', { type: 'button', class: 'copy', 'aria-label': `Copy ${name}`, onclick: copy }, 'Copy'), copied];
}

/** A code listing with a copy button; `name` is its label for screen readers. */
export function listing(text, name) {
  const shown = el('pre', { tabindex: '0', role: 'region', 'aria-label': name }, el('code', {}, text));
  return el('div', { class: 'listing' }, shown, copier(text, name));
}
