// Swagger UI over the document that the address names, with the credentials that `prs dev` lends.

import { el } from './elements.js';
import { compare } from './order.js';
import { answered, lent } from './room.js';

const place = document.getElementById('ui');
const { address, keeps } = place.dataset;
const contract = await fetch(address).then(answered).catch((error) => {
  place.append(el('p', { class: 'bad page', role: 'alert' }, `The document could not be read: ${error.message}`));
  throw error;
});
const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', paint);
paint();

// Operations come first; Scalar shows the chapters of the introduction beside them.
const [introduction] = contract.info.description.split('\n## ');
contract.info.description = `${introduction}\n\n[The whole introduction](${location.pathname.replace('swagger', 'scalar')})`;

const ui = SwaggerUIBundle({
  dom_id: '#ui',
  spec: contract,
  deepLinking: true,
  persistAuthorization: keeps === 'true',
  tryItOutEnabled: true,
  displayRequestDuration: true,
  filter: true,
  docExpansion: 'list',
  tagsSorter: compare,
  defaultModelsExpandDepth: 0,
  validatorUrl: 'none',
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
  async onComplete() {
    const keys = await lent().catch(() => null);
    for (const [scheme, value] of Object.entries(keys?.credentials ?? {})) ui.preauthorizeApiKey(scheme, value);
  },
});
