// The request that the page has just made, as text to copy: curl, Python, TypeScript. A key stands in it as a variable.

import { session } from './api.js';
import { copier, dialog, h } from './dom.js';

const LANGUAGES = [['curl', 'curl'], ['python', 'Python'], ['typescript', 'TypeScript']];

function curl({ method, url, body }) {
  const lines = [`curl -s ${method === 'POST' ? '' : `-X ${method} `}'${url}'`];
  if (session.guarded) lines.push('-H "authorization: Bearer $DRAGOMAN_KEY"');
  if (body) lines.push("-H 'content-type: application/json'", `-d '${JSON.stringify(body, null, 1).replaceAll("'", "'\\''")}'`);
  return lines.join(' \\\n  ');
}

function python({ method, url, body }) {
  const key = session.guarded ? '\n    "authorization": f"Bearer {os.environ[\'DRAGOMAN_KEY\']}",' : '';
  return `import json${session.guarded ? ', os' : ''}
import urllib.request

body = ${literal(body)}
request = urllib.request.Request("${url}", json.dumps(body).encode(), {${key}
    "content-type": "application/json",
}, method="${method}")
answer = json.load(urllib.request.urlopen(request))
for hit in answer["hits"]:
    print(hit["score"], hit.get("language"), hit["passage"]["text"])`;
}

/** A JSON value as Python writes it. */
function literal(value, indent = '') {
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (value === null) return 'None';
  const deeper = `${indent}    `;
  if (Array.isArray(value)) return `[${value.map((one) => literal(one, indent)).join(', ')}]`;
  if (typeof value === 'object') return `{\n${Object.entries(value).map(([name, one]) => `${deeper}${JSON.stringify(name)}: ${literal(one, deeper)},`).join('\n')}\n${indent}}`;
  return JSON.stringify(value);
}

function typescript({ method, url, body }) {
  const key = session.guarded ? ' authorization: `Bearer ${process.env.DRAGOMAN_KEY}`,' : '';
  return `const answer = await fetch("${url}", {
  method: "${method}",
  headers: {${key} "content-type": "application/json" },
  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}),
});
if (!answer.ok) throw new Error(await answer.text());
const { hits } = (await answer.json()) as { hits: { score: number; language?: string; passage: { text: string } }[] };
for (const hit of hits) console.log(hit.score, hit.language, hit.passage.text);`;
}

const WRITERS = { curl, python, typescript };
let chosen = 'curl';

/** Shows the request in the three languages. */
export function showRequest(method, path, body) {
  const request = { method, url: location.origin + path, body };
  return dialog('The request', () => {
    const code = h('pre.code', { tabindex: '0', 'aria-label': 'The request' });
    const tabs = LANGUAGES.map(([name, label]) => h('button', { role: 'tab', 'data-name': name, onclick: () => pick(name), onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const at = LANGUAGES.findIndex(([one]) => one === chosen);
      pick(LANGUAGES[(at + step + LANGUAGES.length) % LANGUAGES.length][0], true);
    } }, label));
    const pick = (name, focus) => {
      chosen = name;
      code.textContent = WRITERS[name](request);
      for (const tab of tabs) {
        const on = tab.dataset.name === name;
        tab.setAttribute('aria-selected', String(on));
        tab.tabIndex = on ? 0 : -1;
        if (on && focus) tab.focus();
      }
    };
    pick(chosen);
    return h('div', h('div.tabs', { role: 'tablist', 'aria-label': 'Language of the program' }, tabs), code, h('footer', copier(() => code.textContent)));
  }, 'wide');
}
