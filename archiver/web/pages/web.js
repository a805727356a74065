// Live figures: the server sends the same HTML that the page has without this script.
"use strict";

const live = document.getElementById("live");
if (live) {
  const connection = document.getElementById("connection");
  const events = new EventSource(live.dataset.events);
  events.addEventListener("figures", (event) => {
    live.innerHTML = event.data;
    connection.textContent = "";
  });
  events.addEventListener("states", (event) => {
    const states = JSON.parse(event.data);
    const shown = [...document.querySelectorAll("[data-run]")];
    shown.forEach((each) => {
      const words = states[each.dataset.run];
      if (words !== undefined && each.textContent !== words) each.textContent = words;
    });
    const unseen = Object.keys(states).length - shown.length;
    document.getElementById("new-runs").textContent = unseen > 0 ? "There are new runs. Reload this page to list them." : "";
  });
  events.addEventListener("ended", () => {
    events.close();
    location.reload();
  });
  events.addEventListener("error", () => {
    connection.textContent = "No connection to archiver web. The figures below no longer change.";
  });
}
