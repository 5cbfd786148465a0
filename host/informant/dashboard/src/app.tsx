// The entry: frame, navigation, banners, the token form, and the choice of the view.

import "./styles/base.css";
import "./styles/parts.css";
import "./styles/tables.css";
import "./styles/overview.css";
import "./styles/detail.css";
import { Fragment, h, render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { connection, connectionDetail, setToken, tokenNeeded } from "./api";
import { inOwnFrame, useCell } from "./cell";
import { timeZone } from "./format";
import { ObjectPage } from "./object";
import { Overview } from "./overview";
import { Empty, Panel } from "./parts";
import { Plugin } from "./plugin";
import { Plugins } from "./plugins";
import { Replicas } from "./replicas";
import { useRoute, type Route } from "./router";
import { Sources } from "./sources";
import { Symbol } from "./state";
import { openStream } from "./stream";
import { foreign, multiline } from "./text";
import { Guard } from "./view";

const PAGES = ["Overview", "Plugins", "Sources", "Object", "Replicas"];

/** The topics that a view reads. */
function topicsOf(route: Route): string[] {
  switch (route.page) {
    case "overview":
    case "plugins":
    case "sources":
    case "replicas":
      return [route.page];
    case "plugin":
      return ["plugins", `logs:${route.name}`, `why:${route.name}`];
    case "object":
      return route.key === null ? ["sources"] : [];
    case "unknown":
      return [];
  }
}

function titleOf(route: Route): string {
  if (route.page === "plugin") return route.name;
  if (route.page === "object" && route.key) return route.key.name;
  return PAGES.find((label) => label.toLowerCase() === route.page) ?? "Not found";
}

function View({ route }: { route: Route }) {
  switch (route.page) {
    case "overview":
      return <Overview />;
    case "plugins":
      return <Plugins query={route.query} />;
    case "plugin":
      return <Plugin name={route.name} />;
    case "sources":
      return <Sources query={route.query} />;
    case "object":
      return <ObjectPage object={route.key} />;
    case "replicas":
      return <Replicas />;
    case "unknown":
      return (
        <>
          <h1 tabIndex={-1}>Not found</h1>
          <Empty>There is no such page.</Empty>
        </>
      );
  }
}

function TokenForm({ message }: { message: string }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const value = new FormData(event.currentTarget as HTMLFormElement).get("token");
    if (typeof value === "string" && value.trim() !== "") setToken(value.trim());
  };
  return (
    <Panel title="Token" class="token">
      <p>{multiline(message)}</p>
      <form class="tools" onSubmit={submit}>
        <label class="field">
          <span>Bearer token</span>
          <input type="password" name="token" required autocomplete="off" autofocus />
        </label>
        <button type="submit" class="primary">
          Use token
        </button>
      </form>
      <p class="muted">The page forgets the token when you close or reload it.</p>
    </Panel>
  );
}

function ConnectionState() {
  const state = useCell(connection);
  const [tone, text] = ({ connecting: ["busy", "Connecting"], open: ["ok", "Live"], lost: ["bad", "Lost"] } as const)[
    state
  ];
  return (
    <span class={`pill ${tone}`} role="status" aria-label={`Connection: ${text}`}>
      <Symbol tone={tone} />
      {text}
    </span>
  );
}

function Banner() {
  const state = useCell(connection);
  const detail = useCell(connectionDetail);
  return (
    <div role="alert" class="banner-place">
      {state === "lost" && (
        <p class="banner">
          <Symbol tone="warn" />
          <span>
            Connection lost, trying again.
            {detail !== null && <> The server answered: {foreign(detail)}</>}
          </span>
        </p>
      )}
    </div>
  );
}

function Footer() {
  const [zone, setZone] = useState("");
  // The browser takes long for its first answer about zones and languages.
  useLayoutEffect(() => inOwnFrame(() => setZone(timeZone())), []);
  return <footer class="muted">{zone && `Times are in ${zone}.`}</footer>;
}

function App() {
  const route = useRoute();
  const asked = useCell(tokenNeeded);
  const main = useRef<HTMLElement>(null);
  const topics = JSON.stringify(topicsOf(route));
  const view = JSON.stringify({ ...route, query: undefined });
  const first = useRef(view);

  useEffect(() => {
    if (asked === null) openStream(JSON.parse(topics) as string[]);
  }, [topics, asked]);

  useLayoutEffect(() => {
    document.title = `${titleOf(route)} · Informant`;
    if (first.current === view) return;
    // After a change of the view, the keyboard and screen readers continue at its heading.
    first.current = "";
    scrollTo(0, 0);
    main.current?.querySelector("h1")?.focus({ preventScroll: true });
  }, [view]);

  const active = route.page === "plugin" ? "plugins" : route.page;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="#/">
          Informant
        </a>
        <nav aria-label="Pages">
          {PAGES.map((label, index) => {
            const page = label.toLowerCase();
            return (
              <a key={page} href={index === 0 ? "#/" : `#/${page}`} aria-current={page === active ? "page" : undefined}>
                {label}
              </a>
            );
          })}
        </nav>
        <ConnectionState />
      </header>
      <Banner />
      <main id="main" tabIndex={-1} ref={main}>
        {asked !== null ? (
          <>
            <h1>Sign in</h1>
            <TokenForm message={asked} />
          </>
        ) : (
          <Guard key={view}>
            <View route={route} />
          </Guard>
        )}
      </main>
      <Footer />
    </>
  );
}

// In a task of its own: running the script and drawing together could block a slow machine for too long.
setTimeout(() => render(<App />, document.getElementById("app")!));
