// Compiles every contract of `contracts/` into `artifacts/`, one file per contract. Run with `npm run compile`.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import solc from 'solc';

const here = dirname(fileURLToPath(import.meta.url));
const sources = Object.fromEntries(
  readdirSync(join(here, 'contracts'))
    .filter((file) => file.endsWith('.sol'))
    .sort()
    .map((file) => [file, { content: readFileSync(join(here, 'contracts', file), 'utf8') }]),
);

const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: 'Solidity',
      sources,
      settings: {
        optimizer: { enabled: true, runs: 200 },
        evmVersion: 'paris',
        // Without the metadata trailer the bytecode depends only on the code.
        metadata: { appendCBOR: false, bytecodeHash: 'none' },
        outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object'], '': ['ast'] } },
      },
    }),
  ),
);
for (const { formattedMessage } of output.errors ?? []) console.error(formattedMessage);
if (output.errors?.some(({ severity }) => severity === 'error')) process.exit(1);

const sha256 = (text) => createHash('sha256').update(text).digest('hex');

/** The file and every file that it imports, directly or indirectly: its bytecode depends on all of them. */
function closure(file, seen = new Set()) {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const node of output.sources[file].ast.nodes) {
    if (node.nodeType === 'ImportDirective') closure(node.absolutePath, seen);
  }
  return seen;
}

const folder = join(here, 'artifacts');
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder);
for (const file of Object.keys(sources)) {
  const name = file.replace(/\.sol$/, '');
  const { abi, evm } = output.contracts[file][name];
  const artifact = {
    compiler: solc.version(),
    sourceSha256: Object.fromEntries([...closure(file)].sort().map((path) => [path, sha256(sources[path].content)])),
    abi,
    bytecode: `0x${evm.bytecode.object}`,
  };
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(artifact, null, 1)}\n`);
  console.log(`${name}: ${evm.bytecode.object.length / 2} bytes`);
}
