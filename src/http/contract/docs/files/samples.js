// Writes samples of an operation in several languages from the examples of its document. Uses no DOM.

/** Code and name of each language. */
export const LANGUAGES = [
  ['curl', 'curl'],
  ['typescript', 'TypeScript'],
  ['python', 'Python'],
  ['go', 'Go'],
  ['rust', 'Rust'],
];

/** Their names in the highlighter of Scalar. */
export const HIGHLIGHTS = { curl: 'shell', typescript: 'typescript', python: 'python', go: 'go', rust: 'rust' };

/** Environment variables from which samples read credentials, by security scheme. */
const VARIABLES = {
  ApiKey: 'PRS_API_KEY',
  ClientId: 'PRS_CLIENT_ID',
  OrchestratorKey: 'PRS_ORCHESTRATOR_KEY',
  SessionBearer: 'PRS_SESSION',
};

/** Resolves a reference within a document. */
function resolved(document, value) {
  const path = value?.$ref?.split('/').slice(1) ?? [];
  return path.length ? path.reduce((part, name) => part?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], document) : value;
}

/** The example of a parameter or of a media type; with several, the first one that has a value. */
function example(holder) {
  if (holder.example !== undefined) return holder.example;
  const named = Object.values(holder.examples ?? {}).map((one) => one.value);
  return named.find((value) => value !== undefined) ?? holder.schema?.example;
}

/** The documented success response of an operation: media type and example. */
export function success(document, operation) {
  const status = Object.keys(operation.responses).find((code) => code.startsWith('2'));
  const [[kind, media] = []] = Object.entries(resolved(document, operation.responses[status])?.content ?? {});
  return { status, kind, body: media && example(media) };
}

/**
 * The call of an operation: method, URL, headers and body. `keys` has credentials by scheme; a header without a credential
 * uses an environment variable instead.
 */
export function call(document, path, method, operation, base, keys = {}) {
  // Optional parameters are sent only if they have a single example.
  const isSent = (one) => one.required || one.example !== undefined;
  const parameters = (operation.parameters ?? []).map((one) => resolved(document, one)).filter(isSent);
  const text = (one) => encodeURIComponent(String(example(one) ?? one.name));
  const filled = parameters
    .filter((one) => one.in === 'path')
    .reduce((address, one) => address.replace(`{${one.name}}`, text(one)), path);
  const query = parameters.filter((one) => one.in === 'query').map((one) => `${one.name}=${text(one)}`);
  const headers = [];
  const schemes = document.components?.securitySchemes ?? {};
  for (const name of Object.keys(operation.security?.[0] ?? {})) {
    const scheme = schemes[name];
    const isBearer = scheme?.type === 'http';
    if (!VARIABLES[name] || (!isBearer && scheme?.in !== 'header')) continue;
    const secret = keys[name] ? { value: keys[name] } : { variable: VARIABLES[name] };
    headers.push({ name: isBearer ? 'authorization' : scheme.name, prefix: isBearer ? 'Bearer ' : '', ...secret });
  }
  const media = resolved(document, operation.requestBody)?.content?.['application/json'];
  const body = media && example(media);
  if (body !== undefined) headers.push({ name: 'content-type', prefix: '', value: 'application/json' });
  const { kind } = success(document, operation);
  const url = `${base}${filled}${query.length ? `?${query.join('&')}` : ''}`;
  return { method: method.toUpperCase(), url, headers, body, kind };
}

/** Writes a call in a language, by its code. */
export const sample = (language, call) => WRITERS[language](call);

const indented = (text, by) => text.replaceAll('\n', `\n${by}`);
const json = (body) => JSON.stringify(body, null, 2);
const isStream = ({ kind }) => kind === 'text/event-stream';
const isJson = ({ kind }) => kind === 'application/json';

// curl

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function curl({ method, url, headers, body, kind }) {
  const header = ({ name, prefix, value, variable }) =>
    variable ? `-H "${name}: ${prefix}$${variable}"` : `-H ${quoted(`${name}: ${prefix}${value}`)}`;
  const isPlain = method === 'GET' || (method === 'POST' && body !== undefined);
  const options = [
    ...(isPlain ? [] : [`-X ${method}`]),
    ...headers.map(header),
    ...(body === undefined ? [] : [`-d ${quoted(json(body))}`]),
  ];
  const begin = kind === 'text/event-stream' ? 'curl -N' : 'curl';
  return [`${begin} ${quoted(url)}`, ...options].join(' \\\n  ');
}

// TypeScript

function typescript(call) {
  const { method, url, headers, body } = call;
  const value = ({ prefix, value, variable }) => {
    if (!variable) return JSON.stringify(prefix + value);
    const read = `process.env.${variable} ?? ""`;
    return prefix ? `\`${prefix}\${${read}}\`` : read;
  };
  const options = [];
  if (method !== 'GET') options.push(`method: ${JSON.stringify(method)},`);
  if (headers.length) {
    options.push('headers: {', ...headers.map((one) => `  ${JSON.stringify(one.name)}: ${value(one)},`), '},');
  }
  if (body !== undefined) options.push(`body: JSON.stringify(${indented(json(body), '  ')}),`);
  const further = options.length ? `, {\n  ${options.join('\n  ')}\n}` : '';
  const asked = `const response = await fetch(${JSON.stringify(url)}${further});\n`;
  if (isStream(call)) {
    return `${asked}for await (const part of response.body ?? []) {\n  process.stdout.write(part);\n}`;
  }
  return `${asked}console.log(response.status, await response.${isJson(call) ? 'json' : 'text'}());`;
}

// Python

function literal(value, by = '') {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value !== 'object') return JSON.stringify(value);
  const inner = `${by}    `;
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((one) => inner + literal(one, inner))
    : Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${literal(one, inner)}`);
  const [open, close] = isList ? '[]' : '{}';
  return parts.length ? `${open}\n${parts.join(',\n')},\n${by}${close}` : open + close;
}

function python(call) {
  const { method, url, headers, body } = call;
  const value = ({ prefix, value, variable }) => {
    if (!variable) return JSON.stringify(prefix + value);
    return prefix ? `f"${prefix}{os.environ['${variable}']}"` : `os.environ["${variable}"]`;
  };
  const modules = ['urllib.error', 'urllib.request'];
  if (headers.some((one) => one.variable)) modules.unshift('os');
  if (body !== undefined || isJson(call)) modules.unshift('json');
  const options = [JSON.stringify(url)];
  if (method !== 'GET') options.push(`method=${JSON.stringify(method)}`);
  if (headers.length) {
    const lines = headers.map((one) => `        ${JSON.stringify(one.name)}: ${value(one)},`);
    options.push(`headers={\n${lines.join('\n')}\n    }`);
  }
  if (body !== undefined) options.push(`data=json.dumps(${literal(body, '    ')}).encode()`);
  const asked = `request = urllib.request.Request(\n    ${options.join(',\n    ')},\n)\n`;
  const read = isStream(call)
    ? '        for line in response:\n            print(line.decode(), end="")'
    : `        print(response.status, ${isJson(call) ? 'json.load(response)' : 'response.read().decode()'})`;
  // An error response raises an exception whose text lacks the body.
  const refused = 'except urllib.error.HTTPError as refusal:\n    print(refusal.code, refusal.read().decode())';
  const begin = modules.map((name) => `import ${name}`).join('\n');
  return `${begin}\n\n${asked}try:\n    with urllib.request.urlopen(request) as response:\n${read}\n${refused}`;
}

// Go

function go({ method, url, headers, body }) {
  const value = ({ prefix, value, variable }) => {
    if (!variable) return JSON.stringify(prefix + value);
    return `${prefix ? `${JSON.stringify(prefix)}+` : ''}os.Getenv(${JSON.stringify(variable)})`;
  };
  const text = body === undefined ? '' : json(body);
  const raw = text.includes('`') ? JSON.stringify(text) : `\`${text}\``;
  const packages = ['fmt', 'io', 'log', 'net/http', 'os', ...(text ? ['strings'] : [])];
  const lines = [
    ...(text ? [`body := strings.NewReader(${raw})`] : []),
    `request, err := http.NewRequest(${JSON.stringify(method)}, ${JSON.stringify(url)}, ${text ? 'body' : 'nil'})`,
    'if err != nil {',
    '\tlog.Fatal(err)',
    '}',
    ...headers.map((one) => `request.Header.Set(${JSON.stringify(one.name)}, ${value(one)})`),
    'response, err := http.DefaultClient.Do(request)',
    'if err != nil {',
    '\tlog.Fatal(err)',
    '}',
    'defer response.Body.Close()',
    'fmt.Println(response.Status)',
    'if _, err := io.Copy(os.Stdout, response.Body); err != nil {',
    '\tlog.Fatal(err)',
    '}',
  ];
  const imports = packages.map((name) => `\t"${name}"`).join('\n');
  return `package main\n\nimport (\n${imports}\n)\n\nfunc main() {\n\t${lines.join('\n\t')}\n}`;
}

// Rust

function rust(call) {
  const { method, url, headers, body } = call;
  const value = ({ prefix, value, variable }) => {
    if (!variable) return JSON.stringify(prefix + value);
    const read = `std::env::var("${variable}")?`;
    return prefix ? `format!("${prefix}{}", ${read})` : read;
  };
  // The library's `json` sets the content type.
  const own = headers.filter((one) => one.name !== 'content-type');
  const steps = [
    `.${method.toLowerCase()}(${JSON.stringify(url)})`,
    ...own.map((one) => `.header(${JSON.stringify(one.name)}, ${value(one)})`),
    ...(body === undefined ? [] : [`.json(&serde_json::json!(${indented(json(body), '        ')}))`]),
    '.send()',
    '.await?;',
  ];
  const read = isStream(call)
    ? ['while let Some(part) = response.chunk().await? {', '    print!("{}", String::from_utf8_lossy(&part));', '}']
    : ['println!("{} {}", response.status(), response.text().await?);'];
  const lines = [
    `let ${isStream(call) ? 'mut ' : ''}response = reqwest::Client::new()`,
    ...steps.map((step) => `    ${step}`),
    ...read,
    'Ok(())',
  ];
  const begin = '// Needs reqwest (feature "json"), serde_json and tokio (feature "full").\n#[tokio::main]\n';
  return `${begin}async fn main() -> Result<(), Box<dyn std::error::Error>> {\n    ${lines.join('\n    ')}\n}`;
}

const WRITERS = { curl, typescript, python, go, rust };
