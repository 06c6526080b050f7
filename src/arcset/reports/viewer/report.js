/* The run report: its viewer, and the button between light and dark. */
const data = JSON.parse(document.getElementById("data").textContent);
const button = document.getElementById("theme");
const viewer = data.runs.length ? createViewer(document.getElementById("viewer"), data) : null;
window.arcsetViewer = viewer;
const show = () => {
  button.textContent = isDark() ? "☀ Light" : "☾ Dark";
  button.setAttribute("aria-label", isDark() ? "Light page" : "Dark page");
  viewer?.repaint();
};
button.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  show();
});
darkScheme.addEventListener("change", show);
button.hidden = false;
show();
