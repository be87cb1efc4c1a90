// Swagger UI for one document, with the credentials of `prs dev`.

import { el } from './elements.js';
import { compare } from './order.js';
import { answered, lent } from './room.js';

const place = document.getElementById('ui');
const { address, keeps } = place.dataset;
const contract = await fetch(address).then(answered).catch((error) => {
  place.append(el('p', { class: 'bad page', role: 'alert' }, `The document could not be loaded: ${error.message}`));
  throw error;
});
const dark = matchMedia('(prefers-color-scheme: dark)');
const paint = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', paint);
paint();

// Show only the first paragraphs, so that operations come first; Scalar shows the whole introduction.
const [introduction] = contract.info.description.split('\n## ');
contract.info.description = `${introduction}\n\n[Full introduction](${location.pathname.replace('swagger', 'scalar')})`;

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
  // Swagger UI sends the credentials of all alternatives of an operation at once, and the service refuses the key of an
  // orchestrator beside a credential of a platform.
  requestInterceptor(request) {
    const { headers } = request;
    if (headers['x-api-key'] || headers.Authorization) delete headers['x-orchestrator-key'];
    return request;
  },
  async onComplete() {
    const keys = await lent().catch(() => null);
    for (const [scheme, value] of Object.entries(keys?.credentials ?? {})) ui.preauthorizeApiKey(scheme, value);
  },
});
