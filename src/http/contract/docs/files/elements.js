// Elements out of data: texts stay texts.

/** An element; attributes that begin with `on` are listeners, `false` and `null` are left out. */
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

/** Words in which what stands between backticks is code, and what stands between double asterisks is strong. */
const words = (text) =>
  text
    .split('`')
    .map((part, index) => (index % 2 ? el('code', {}, part) : part.split('**').map((piece, at) => (at % 2 ? el('strong', {}, piece) : piece))));

const list = (text) => el('ul', {}, text.slice(2).split('\n- ').map((item) => el('li', {}, words(item))));

/** Paragraphs and lists of a description. */
export const prose = (text) => text.split(/\n\s*\n/).map((part) => (part.startsWith('- ') ? list(part) : el('p', {}, words(part))));

/** What copies a text, to stand in its listing; `name` says to a screen reader what it is. */
export function copier(text, name) {
  const copied = el('span', { class: 'unseen', role: 'status' });
  const copy = async (event) => {
    try {
      await navigator.clipboard.writeText(text);
      event.target.textContent = copied.textContent = 'Copied';
    } catch {
      event.target.textContent = copied.textContent = 'Not allowed';
    }
    setTimeout(() => {
      event.target.textContent = 'Copy';
      copied.textContent = '';
    }, 1500);
  };
  return [el('button', { type: 'button', class: 'copy', 'aria-label': `Copy ${name}`, onclick: copy }, 'Copy'), copied];
}

/** Code that can be copied; `name` says to a screen reader what it is. */
export function listing(text, name) {
  const shown = el('pre', { tabindex: '0', role: 'region', 'aria-label': name }, el('code', {}, text));
  return el('div', { class: 'listing' }, shown, copier(text, name));
}
