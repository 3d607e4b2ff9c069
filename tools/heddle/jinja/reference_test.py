"""The same text as Python's Jinja, for expressions and for whole chat templates.

    reference_test.py RENDER_CASES PACKAGE_DIR TEMPLATES

Installs the package into PACKAGE_DIR if this Python does not have it. Ends with 77 where that cannot be
done: the test is then skipped.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

sys.path.append(sys.argv[2])
try:
    import jinja2
except ImportError:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", sys.argv[2], "jinja2"]
    if subprocess.run(pip, check=False).returncode != 0:
        print("skipped: the package jinja2 can neither be imported nor installed")
        sys.exit(77)
    importlib.invalidate_caches()
    import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """A tag that programs for training know; it changes nothing in the text."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    """As programs set it up that render chat templates."""
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation]
    )
    made.globals["raise_exception"] = raise_exception
    made.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    return made


VARIABLES = {
    "a": "abc",
    "text": "  A line,\nand <b>another</b> one.\n",
    "wide": "naïve café — 日本語 ☕",
    "n": 7,
    "x": 2.5,
    "yes": True,
    "nothing": None,
    "list": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"],
    "people": [
        {"name": "Ada", "age": 36, "tags": ["x", "y"]},
        {"name": "Bob", "age": 28, "tags": []},
        {"name": "Cy", "age": 41, "role": None},
    ],
    "d": {"one": 1, "two": [2, "2"], "three": {"x": None, "y": True, "z": 1.5}},
}

EXPRESSIONS = """
1 + 2 * 3 - 4 | 7 // 2 | -7 // 2 | -7 % 3 | 7 % -3 | 2 ** 10 | 7 / 2 | 8 / 2 | 2 ** -1 | 1e3 | 1.0 | 1e20 | 1.5e-7 | -3|abs | 0.1 + 0.2
1 == 1.0 | true == 1 | "a" == 'a' | 1 < 2 < 3 | 3 > 2 > 2 | 1 <= 1 | "a" < "b" | not 1 == 2 | 2 != 3 | not true and false
"a" "b" | 'it''s' | "tab\\there" | "\\u00e9\\x41" | 'q\\'q' | "line\\nend" | "back\\\\slash"
"a" + "b" ~ 1 ~ none ~ true | 1 ~ 2 | "ab" * 3 | [1, 2] + [3] | [0] * 3 | "-" * 0
a[0] | a[-1] | a[1:] | a[:-1] | a[::-1] | a[::2] | a[5:] | a[-10:2] | wide[2] | wide[6:10] | wide|length | list[::-1] | list[1:] | list[-1] | list[7] | (1, 2, 3)[1:]
a.upper() | a.title() | "hello wORLD"|title | "hello wORLD"|capitalize | a|upper|lower | "x-y_z"|title | "x-y_z".title() | a.startswith("ab") | a.endswith(("x", "c")) | a.find("c") | wide.find("日") | a.find("z") | "aXbX".rfind("X") | "aaa".count("a") | a.replace("b", "--") | "aaa".replace("a", "b", 2) | "ab".replace("", ".")
text.strip() | text.lstrip() | text.rstrip("\\n") | text|trim | "xxaxx".strip("x") | "xxaxx"|trim("x") | "a,b,,c".split(",") | "a b  c ".split() | " a b c".split(None, 1) | "a,b,c".split(",", 1) | "a,b,c".rsplit(",", 1) | text.splitlines() | "prefix-x".removeprefix("prefix-") | "x.txt".removesuffix(".txt") | "12".isdigit() | "a1".isalpha() | ", ".join(words)
n is odd | n is even | n is divisibleby 7 | n is divisibleby(2) | x is float | n is integer | n is number | a is string | list is sequence | d is mapping | nothing is none | missing is defined | missing is not defined | a is defined and n is defined | yes is true | yes is boolean | 3 is in list | n is eq 7 | n is gt 3 | "abc" is lower | "ABC" is upper | list is iterable | d.get is callable
"b" in a | 3 in list | "one" in d | "x" not in a | 9 not in list | not "x" in a | ("a", "b") == ("a", "b") | [1, 2] == [1, 2] | {"a": 1} == {"a": 1}
yes and n | nothing or "other" | not nothing | "yes" if yes else "no" | "only" if false | ("a" if false else "b" if yes else "c") | missing or "gone" | (not missing) and true
d.one | d["two"] | d.three.y | d["three"]["x"] | d.get("one") | d.get("nine") | d.get("nine", 9) | d.keys()|list | d.values()|list | d.items()|list | d|length | d|items|list | d.missing is defined | people[0].name | people.0.age | people[0]["tags"][1]
list|first | list|last | list|sort | list|sort(reverse=true) | words|sort | words|sort(case_sensitive=true) | words|unique|list | list|sum | list|min | list|max | list|join("-") | words|join | words|map("upper")|join(",") | people|map(attribute="name")|join(" ") | people|map(attribute="role", default="?")|list | people|sum("age") | people|sort(attribute="age")|map(attribute="name")|list | people|selectattr("role", "defined")|list|length | people|selectattr("age", "gt", 30)|map(attribute="name")|list | people|rejectattr("tags")|map(attribute="name")|list | list|select("odd")|list | list|reject("equalto", 3)|list | list|select|list | list|reverse|list | a|reverse | words|list|length | d|dictsort | d.three|dictsort(reverse=true)|first
missing|default("x") | nothing|default("x") | nothing|default("x", true) | ""|default("x", boolean=true) | missing|d | n|string ~ "!" | "12"|int + 1 | "z"|int | "z"|int(5) | "2.5"|float | 3.7|int | 2.567|round(2) | 2.5|round | 2.1|round(0, "ceil") | "a\\nb\\n\\nc"|indent | "a\\nb"|indent(2, true) | "a\\nb"|indent("> ")
d|tojson | list|tojson | wide|tojson | "a\\"b\\\\c\\n\\u0001"|tojson | d|tojson(indent=2) | []|tojson | {}|tojson(indent=1) | nothing|tojson | x|tojson | people[0]|tojson
list | words | d | nothing | yes | x | (1,) | (1, "a") | "it's" ~ ["it's", 'say "x"', "\\n"] | [none, true, 1.0] | {"a": [1, {"b": 2}]} | {} | []
range(3)|list | range(1, 4)|list | range(5, 0, -2)|list | range(0)|list | dict(a=1, b="x") | dict(d, one=3).one if false else 1 | namespace(a=1).a
"%s-%s"|format(a, n) | "%02d"|format(n) | "%5d|%-5d|%+d"|format(n, n, n) | "%.2f"|format(x) | "%e"|format(x) | "%x"|format(n) | "%x|%X|%+d|%+.1f"|format(-n, -300, -n, x) | "%5s|%-5s"|format(a, wide[:2]) | "%.2s"|format(a) | "100%%"|format | "%r"|format(a) | "%05d"|format(-n) | "%d"|format(x)
-n | +n | - n + 1 | -a|length if false else 2 | (1 + 2) * 3 | 1 + 2|abs | "a" ~ "b"|upper | 10 - 2 - 3 | 2 * 3 % 4 | 1 if 1 < 2 and 2 < 3 else 0
""".strip()

STATEMENTS = [
    "{% for x in list %}{{ loop.index }}/{{ loop.length }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in list %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.cycle('a', 'b') }}|{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}gone{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'aé' %}<{{ c }}>{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}{{ x }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% for y in list %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set x = 1 %}{% for i in list %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in list %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set a, b = 1, 2 %}{{ b }}{{ a }}{% set t = 1, 2 %}{{ t }}",
    "{% set block %}  x{{ n }} {% endset %}[{{ block|trim }}]{% set up | upper %}abc{% endset %}{{ up }}",
    "{% filter upper %}abc {{ a }}{% endfilter %}",
    "{% macro m(a, b='B', c=none) %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}",
    "{% macro down(n) %}{{ n }}{% if n > 0 %},{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(3) }}|{{ down(1)|length }}",
    "{% set outer = 5 %}{% macro m() %}{{ outer }}{% endmacro %}{{ m() }}",
    "{% if n > 9 %}a{% elif n > 6 %}b{% elif true %}c{% else %}d{% endif %}{% if missing %}x{% endif %}",
    "{% raw %}{{ x }} {% if %}{% endraw %}{#- a comment {{ x }} -#}  end",
    "a  {%- if true %}  b  {%- endif %}  c {{- n -}}  d",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "  {%+ if true %}\nx{% endif +%}\ny",
    "  {# gone #}\nx\n  {{ n }}\ny\n\n",
    "{{ 'a' }}\n{{ 'b' }}\n{% set x = 1 %}\n{{ x }}\n\n",
    "one\r\ntwo\r{{ n }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ '}}' }}{{ '%}' }}{% if '%}' %}y{% endif %}",
    "{{ 1,\n 2 }}{{ [1,\n2,] }}{{ (1,) }}{{ {'a': 1,} }}",
    "{%- for p in people %}{{ p.name }}{{ ', ' if not loop.last else '.' }}{%- endfor %}",
    "{{ '%s' if false else 'ok' }}{{ \"a\" if a == 'abc' }}{{ missing }}|{{ nothing }}",
    "{% set x = {'k': 'v'} %}{{ x.k }}{{ x['k'] }}{{ x.get('q', [])|length }}{{ x.items()|list|first }}",
    "{% if a is string and n is not none and not yes is false %}ok{% endif %}",
    "{% if not (a == 'b') and 'c' in a or false %}ok{% endif %}",
    "{%- set q = a if a is defined else 'x' -%}{{ q }}",
    "",
    "plain text { with } braces {",
]

# Failures there are failures here.
REFUSED = [
    "{{ raise_exception('no ' ~ a) }}",
    "{{ missing.x }}",
    "{{ missing + 1 }}",
    "{{ 1 + 'a' }}",
    "{{ 'a' + 1 }}",
    "{{ 1 / 0 }}",
    "{{ [] < 1 }}",
    "{{ a() }}",
    "{{ a|nofilter }}",
    "{{ a is notest }}",
    "{% if a %}",
    "{% endif %}",
    "{% for x list %}{% endfor %}",
    "{{ a",
    "{{ 'a }}",
    "{% nosuch %}",
    "{{ list.append(1) }}",
    "{{ d.update({'a': 1}) }}",
    "{{ range(1000000)|length }}",
    "{{ ! }}",
    "{% set list.x = 1 %}",
    "{{ 5|list }}",
    "{{ '%s'|format }}",
    "{{ '%d'|format(a) }}",
    "{{ '%q'|format(a) }}",
    "{{ 'x'|format(a) }}",
]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather <today> & \"now\"",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Où?"},
                    "days": {"type": ["integer", "string"]},
                    "units": {"type": "array", "items": {"type": "string"}},
                    "mode": {"enum": ["a", "b"]},
                },
                "required": ["city"],
            },
            "return": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
]


def said(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "one question": [said("user", "Hello")],
    "with a system message": [said("system", " Be kind. "), said("user", "Hello\nthere ")],
    "several turns": [
        said("user", "Hi <|im_end|>"),
        said("assistant", "  <think>\nHm.\n</think>\n\nYes? "),
        said("user", "日本 — \"quotes\" & 'more'"),
        said("assistant", "Oh."),
        said("user", "Bye"),
    ],
    "all together": [
        said("system", "S"),
        said("user", "1"),
        said("assistant", "2"),
        said("user", "3"),
    ],
    "tools": [
        said("user", "Rain?"),
        said("assistant", "", tool_calls=[{"function": {"name": "weather", "arguments": {"city": "Bergen"}}}]),
        said("tool", "yes"),
        said("user", "Thanks"),
    ],
}


def cases(templates):
    for line in EXPRESSIONS.splitlines():
        # Filters have no spaces around them here, so that what separates expressions can be seen.
        for one in line.split(" | "):
            yield one, "{{ " + one + " }}", VARIABLES
    for source in STATEMENTS + REFUSED:
        yield source, source, VARIABLES
    for path in sorted(templates.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, messages in CONVERSATIONS.items():
            for tools in [None, TOOLS]:
                for prompt in [True, False]:
                    variables = {"messages": messages, "add_generation_prompt": prompt, "tools": tools}
                    variables.update(bos_token="<s>", eos_token="</s>")
                    yield f"{path.name}: {name}", source, variables


def reference(env, source, variables):
    try:
        return env.from_string(source).render(**variables)
    except (jinja2.exceptions.TemplateError, jinja2.exceptions.SecurityError) as error:
        return error
    except (TypeError, ZeroDivisionError, ValueError, OverflowError, RecursionError) as error:
        return error


def main():
    all_cases = list(cases(Path(sys.argv[3])))
    given = json.dumps([{"source": source, "variables": variables} for _, source, variables in all_cases])
    done = subprocess.run([sys.argv[1]], input=given.encode(), stdout=subprocess.PIPE, check=True)
    env = environment()
    wrong = refused = 0
    for (name, source, variables), ours in zip(all_cases, json.loads(done.stdout), strict=True):
        theirs = reference(env, source, variables)
        if isinstance(theirs, Exception):
            refused += 1
            if "error" in ours:
                continue
            theirs = f"refused: {theirs}"
        if ours.get("text") != theirs:
            wrong += 1
            print(f"{name}\n  here:   {ours.get('text', ours.get('error'))!r}\n  Python: {theirs!r}")
    print(f"{len(all_cases)} cases, {refused} of them refused by both, {wrong} differ")
    sys.exit(1 if wrong or refused < len(REFUSED) else 0)


main()
