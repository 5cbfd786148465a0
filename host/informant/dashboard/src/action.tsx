// An action on a plugin: a button, a question in the page, and the server's answer.

import { h } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, messageOf, post } from "./api";
import { Notice } from "./parts";
import { multiline } from "./text";

export interface Outcome {
  ok: boolean;
  text: string;
}

interface ActionProps {
  label: string;
  /** Names the button for screen readers where the label alone is not unique. */
  name?: string;
  question: string;
  url: string;
  body?: object;
  done: string;
  onOutcome: (outcome: Outcome) => void;
}

export function Action({ label, name, question, url, body = {}, done, onOutcome }: ActionProps) {
  const [step, setStep] = useState<"idle" | "asking" | "sending" | "refused">("idle");
  const confirm = useRef<HTMLButtonElement>(null);
  const start = useRef<HTMLButtonElement>(null);
  const before = useRef(step);

  useLayoutEffect(() => {
    if (step === "asking") confirm.current?.focus();
    else if (before.current !== "idle" && step === "idle") start.current?.focus();
    before.current = step;
  }, [step]);

  // A button that goes, as its row does, leaves the focus to its panel.
  useLayoutEffect(
    () => () => {
      const button = start.current;
      if (button === document.activeElement) button?.closest<HTMLElement>(".panel")?.focus({ preventScroll: true });
    },
    [],
  );

  const send = async () => {
    setStep("sending");
    try {
      await post(url, body);
      setStep("idle");
      onOutcome({ ok: true, text: done });
    } catch (error) {
      setStep(error instanceof ApiError && error.status === 403 ? "refused" : "idle");
      onOutcome({ ok: false, text: `${label} failed: ${messageOf(error)}` });
    }
  };

  if (step === "asking" || step === "sending") {
    const key = (event: KeyboardEvent) => event.key === "Escape" && step === "asking" && setStep("idle");
    return (
      <span class="confirm" role="group" aria-label={`Confirm: ${label}`} onKeyDown={key}>
        <span>{question}</span>
        <button
          type="button"
          class="primary"
          ref={confirm}
          aria-disabled={step === "sending"}
          onClick={step === "asking" ? send : undefined}
        >
          {step === "sending" ? "Sending…" : label}
        </button>
        <button type="button" disabled={step === "sending"} onClick={() => setStep("idle")}>
          Cancel
        </button>
      </span>
    );
  }
  return (
    <button
      type="button"
      ref={start}
      aria-label={name}
      disabled={step === "refused"}
      title={step === "refused" ? "The server refused this action" : undefined}
      onClick={() => setStep("asking")}
    >
      {label}
    </button>
  );
}

/** The last outcome. The element is always there, so that screen readers announce what appears in it. */
export function OutcomeLine({ outcome }: { outcome: Outcome | null }) {
  return (
    <div role="status" class="outcome">
      {outcome && <Notice tone={outcome.ok ? "ok" : "bad"}>{multiline(outcome.text)}</Notice>}
    </div>
  );
}
