// One client for each document; `validator` makes zod validate every body that is sent or received.

const client = (document) => ({
  input: `./documents/${document}.json`,
  output: { path: `generated/zod/${document}`, importFileExtension: '.js' },
  plugins: [
    '@hey-api/client-fetch',
    '@hey-api/typescript',
    { name: 'zod', compatibilityVersion: 4 },
    { name: '@hey-api/sdk', validator: true },
  ],
});

export default [client('v2'), client('auth')];
