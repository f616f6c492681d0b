// What operators do to programs. Each is asked about first.

import { call, programPath } from "./api.js";
import { plural } from "./format.js";

const $ = (id) => document.getElementById(id);

const ACTIONS = {
  pause: {
    title: "Pause",
    text: "Its waiting calls are held, and so is what it sends from now on. Calls that an engine has go on.",
    run: (program) => call("POST", programPath(program, "/pause")),
  },
  resume: {
    title: "Resume",
    text: "Its calls may go to engines again, in their turn.",
    run: (program) => call("POST", programPath(program, "/resume")),
  },
  cancel: {
    title: "Cancel the calls of",
    text: "Its active calls stop in their engines, and their clients are told. The program lives on: its next call is served.",
    run: (program) => call("POST", programPath(program, "/cancel")),
  },
  weight: {
    title: "Re-weight",
    text: "A program of weight 2 gets twice the service of one of weight 1 before others go ahead of it.",
    run: (program, weight) => call("PATCH", programPath(program), { weight }),
  },
};

/** Ask, and do it; gives what to tell the user, null if it was not done. */
export async function act(name, program) {
  const action = ACTIONS[name];
  const weight = await ask(action, name, program);
  if (weight === null) return null;
  const answer = await action.run(program, weight);
  if (name === "cancel") return `${plural(answer.cancelled?.length ?? 0, "call")} of ${program.id} cancelled`;
  return { pause: `${program.id} is paused`, resume: `${program.id} goes on`, weight: `${program.id} has weight ${weight}` }[name];
}

$("confirm-no").addEventListener("click", () => $("confirm").close("no"));

/** Gives null for no, else the weight that was typed (of no use elsewhere). */
function ask(action, name, program) {
  const dialog = $("confirm");
  $("confirm-title").textContent = `${action.title} ${program.id}?`;
  $("confirm-text").textContent = action.text;
  $("confirm-yes").textContent = { cancel: "Cancel the calls", weight: "Set the weight" }[name] ?? action.title;
  $("weight-label").hidden = name !== "weight";
  $("weight").disabled = name !== "weight"; // a hidden field must not keep the form from being sent
  $("weight").value = program.weight ?? 1;
  dialog.returnValue = "no";
  dialog.showModal();
  (name === "weight" ? $("weight") : $("confirm-no")).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? Number($("weight").value) : null), { once: true });
  });
}
