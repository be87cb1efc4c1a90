// Swagger UI over the document that the address names, with the credentials that `prs dev` lends.

import { compare } from './order.js';
import { answered, lent } from './room.js';

const { address, keeps } = document.getElementById('ui').dataset;
const contract = await fetch(address).then(answered);
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
