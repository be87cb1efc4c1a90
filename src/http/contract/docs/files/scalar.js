// Scalar for one document, with our samples and the credentials of `prs dev`.

import { el } from './elements.js';
import { compare } from './order.js';
import { answered, lent } from './room.js';
import { HIGHLIGHTS, LANGUAGES, call, sample } from './samples.js';

const METHODS = ['get', 'put', 'post', 'delete', 'patch'];
const place = document.getElementById('ui');
const { address } = place.dataset;
const read = fetch(address).then(answered);
const [contract, keys] = await Promise.all([read, lent().catch(() => null)]).catch((error) => {
  place.append(el('p', { class: 'bad page', role: 'alert' }, `The document could not be loaded: ${error.message}`));
  throw error;
});

for (const [path, item] of Object.entries(contract.paths ?? {})) {
  for (const method of METHODS.filter((one) => item[one])) {
    const described = call(contract, path, method, item[method], location.origin, keys?.credentials);
    item[method]['x-codeSamples'] = LANGUAGES.map(([code, label]) => {
      return { lang: HIGHLIGHTS[code], label, source: sample(code, described) };
    });
  }
}

const lentOnes = Object.entries(keys?.credentials ?? {});
const securitySchemes = Object.fromEntries(lentOnes.map(([scheme, value]) => [scheme, { value }]));

Scalar.createApiReference('#ui', {
  content: contract,
  servers: [{ url: location.origin }],
  authentication: {
    preferredSecurityScheme: keys ? 'ApiKey' : null,
    securitySchemes,
  },
  tagsSorter: (one, other) => compare(one.name, other.name),
  generateOperationSlug: ({ operationId, path }) => operationId ?? path,
  darkMode: matchMedia('(prefers-color-scheme: dark)').matches,
  hideDarkModeToggle: true,
  hideClientButton: true,
  hiddenClients: true,
  hideModels: true,
  withDefaultFonts: false,
  theme: 'default',
});
