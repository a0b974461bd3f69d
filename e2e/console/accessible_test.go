package console_test

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// faults is a script that returns what keeps somebody from using a page: controls without a name, text whose contrast
// with what is behind it is less than 4.5, headings that skip a level, and ids that are there twice.
const faults = `(() => {
  const found = [];
  const labels = (e) => e.labels && [...e.labels].map((l) => l.textContent).join(" ");
  const name = (e) => (e.getAttribute("aria-label") || labels(e) || e.textContent || "").trim();
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")) {
    if (!name(e)) found.push("no name: " + e.outerHTML.slice(0, 120));
  }
  const parts = (c) => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = (c) => {
    const [r, g, b] = parts(c).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor, p = parts(c);
      if (c !== "transparent" && (p.length < 4 || p[3] > 0)) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility() || e.closest(".hidden, .skip")) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio >= 4.5) continue;
    found.push("contrast " + ratio.toFixed(2) + ": " + walk.currentNode.textContent.trim().slice(0, 60));
  }
  let level = 0;
  for (const h of document.querySelectorAll("main h1, main h2, main h3")) {
    const is = Number(h.tagName[1]);
    if (is > level + 1) found.push("heading skips a level: " + h.textContent);
    level = is;
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((i) => i === id).length > 1) found.push("id twice: " + id);
  if (!document.documentElement.lang) found.push("no language");
  return found;
})()`

// accessible fails the test for each fault of the page, in light and in dark, and when a page is wider than a phone.
func (b *browser) accessible() {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
		})
		var found []string
		b.do(media, chromedp.Evaluate(faults, &found))
		if len(found) > 0 {
			b.Errorf("%s, %s:\n%s", b.title(), scheme, strings.Join(found, "\n"))
		}
	}
	var wide float64
	b.do(chromedp.EmulateViewport(390, 800), chromedp.Evaluate("document.documentElement.scrollWidth", &wide))
	if wide > 390 {
		b.Errorf("%s: %s pixels wide on a phone of 390", b.title(), fmt.Sprint(wide))
	}
	b.shoot(b.title())
	b.do(chromedp.EmulateViewport(1440, 900))
}

func (b *browser) title() (text string) {
	b.do(chromedp.Text("h1", &text))
	return text
}
