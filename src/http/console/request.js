// The last search as code to copy. A key appears in it only as a variable.

import {session} from './api.js';
import {copier, dialog, h} from './dom.js';

function curl(url, body) {
	const lines = [`curl -s '${url}'`, ...(session.guarded ? ['-H "authorization: Bearer $DRAGOMAN_KEY"'] : []),
		"-H 'content-type: application/json'", `-d '${JSON.stringify(body, null, 1).replaceAll("'", "'\\''")}'`];
	return lines.join(' \\\n  ');
}

// Literals that differ between JSON and Python.
const PYTHON = {true: 'True', false: 'False', null: 'None'};

function python(url, body) {
	const key = session.guarded ? '\n    "authorization": f"Bearer {os.environ[\'DRAGOMAN_KEY\']}",' : '';
	return `import json${session.guarded ? ', os' : ''}
import urllib.request

body = ${JSON.stringify(body, null, 4).replace(/"(?:[^"\\]|\\.)*"|true|false|null/g, part => PYTHON[part] ?? part)}
request = urllib.request.Request("${url}", json.dumps(body).encode(), {${key}
    "content-type": "application/json",
})
answer = json.load(urllib.request.urlopen(request))
for hit in answer["hits"]:
    print(hit["score"], hit.get("language"), hit["passage"]["text"])`;
}

function typescript(url, body) {
	const key = session.guarded ? ' authorization: `Bearer ${process.env.DRAGOMAN_KEY}`,' : '';
	return `const answer = await fetch("${url}", {
  method: "POST",
  headers: {${key} "content-type": "application/json" },
  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}),
});
if (!answer.ok) throw new Error(await answer.text());
for (const hit of (await answer.json()).hits) console.log(hit.score, hit.language, hit.passage.text);`;
}

const WRITERS = [['curl', curl], ['Python', python], ['TypeScript', typescript]];
let chosen = 0;

export function showRequest(path, body) {
	const code = h('pre.code', {tabindex: '0', label: 'The request'});
	const pick = (at, focus) => {
		chosen = (at + WRITERS.length) % WRITERS.length;
		code.textContent = WRITERS[chosen][1](new URL(path, location), body);
		tabs.forEach((tab, place) => {
			tab.ariaSelected = String(place === chosen);
			tab.tabIndex = place === chosen ? 0 : -1;
		});
		if (focus) tabs[chosen].focus();
	};
	const tabs = WRITERS.map(([label], at) => h('button', {role: 'tab', onclick: () => pick(at), onkeydown: ({key}) => {
		const step = {ArrowRight: 1, ArrowLeft: -1}[key];
		if (step) pick(chosen + step, true);
	}}, label));
	pick(chosen);
	return dialog('The request', () => h('div', h('div.tabs', {role: 'tablist', label: 'Language of the program'}, tabs), code, h('footer', copier(code))), 'wide');
}
