package console_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// act fills in the form of an act on the page that is shown, reads its command, and confirms it.
func (b *browser) act(what, command string, values map[string]string) {
	b.Helper()
	form := "form[action='/console/act/" + what + "']"
	b.do(chromedp.Evaluate("document.querySelector(\""+form+"\").closest('details')?.setAttribute('open', '')", nil))
	for name, value := range values {
		b.do(chromedp.SetValue(form+" [name="+name+"]", value))
	}
	b.do(chromedp.Click(form + " button"))
	b.at("/console/act/" + what)
	b.says(command)
	b.accessible()
	b.do(chromedp.Click("main form.change button"))
}

// at waits until a page is shown and loaded.
func (b *browser) at(path string) {
	b.Helper()
	b.until("the page is "+path, func() bool {
		var at string
		return chromedp.Run(b.ctx, chromedp.Location(&at)) == nil && strings.HasPrefix(at, b.site+path)
	})
	b.loaded()
}

// A server is held, labelled, moved and decommissioned in the browser; each act shows its command, or its plan, first.
func TestAServerIsActedOnInTheBrowser(t *testing.T) {
	t.Parallel()
	w := world(t)
	w.OK("env", "create", "prod")
	w.OK("install", "beacon@1.0.0", "--on", "all", "--yes")
	w.Converges("1.0.0")
	b := open(t, w)
	b.signIn(w, "/console/servers/web-1")
	b.act("hold", "garrison hold beacon --on web-1 --until 8h -m T-7",
		map[string]string{"agent": "beacon", "why": "T-7"})
	b.says("beacon stays as it is on web-1 until ")
	held(w, 1)
	b.do(chromedp.Navigate(b.site + "/console/servers/web-1"))
	b.says("End the hold of beacon")
	b.act("unhold", "garrison unhold --id ", nil)
	b.says("1 hold ended")
	held(w, 0)

	b.do(chromedp.Navigate(b.site + "/console/servers/web-1"))
	b.act("label", "garrison server set web-1 rack=a1", map[string]string{"labels": "rack=a1"})
	b.says("its labels are ")
	b.do(chromedp.Navigate(b.site + "/console/servers/web-1"))
	b.act("move", "garrison server set web-1 --env prod", map[string]string{"environment": "prod"})
	b.says("1 server moved to prod")

	b.do(chromedp.Navigate(b.site + "/console/servers/web-1"))
	b.act("decommission", "garrison server decommission web-1", nil)
	b.at("/console/intents/")
	w.Eventually("the server ends", func() error {
		r, err := scenario.Ask[*registryv1.GetServerResponse](w, &registryv1.GetServerRequest{Server: "web-1"})
		if err == nil && r.GetServer().GetLife() == serverv1.Life_LIFE_ALIVE {
			err = fmt.Errorf("the server is alive")
		}
		return err
	})
}

// held fails the test unless as many holds are there.
func held(w *scenario.World, want int) {
	w.T.Helper()
	if have := strings.Count(w.OK("hold", "list"), "beacon"); have != want {
		w.T.Errorf("%d agents are held, want %d", have, want)
	}
}

// An image is promoted and blocked in the browser.
func TestAnImageIsActedOnInTheBrowser(t *testing.T) {
	t.Parallel()
	w := world(t)
	w.OK("channel", "create", "late")
	b := open(t, w)
	b.signIn(w, "/console/images?agent=beacon")
	image := func() {
		b.do(chromedp.Navigate(b.site+"/console/images?agent=beacon"), chromedp.Click("tbody tr:last-child td a"))
		b.says("Change the image")
	}
	image()
	b.act("promote", "--channel late", map[string]string{"channel": "late"})
	b.says("the image is the newest of channel late")
	image()
	b.act("block", "-m 'it leaks'", map[string]string{"why": "it leaks"})
	b.says("no further server gets the image")
	if out := w.OK("block", "list"); !strings.Contains(out, "it leaks") {
		t.Errorf("the blocks are:\n%s", out)
	}
}

// A map names the server under the pointer or the cursor and leads to it; its legend leads to the same servers.
func TestAMapLeadsToServers(t *testing.T) {
	t.Parallel()
	w := world(t)
	for n := range 30 {
		w.OK("server", "enroll", fmt.Sprintf("lab-%02d", n))
	}
	w.OK("install", "beacon@1.0.0", "--on", "all", "--yes")
	w.Converges("1.0.0")
	b := open(t, w)
	b.signIn(w, "/console/map")
	b.says("32 servers, by environment and name.")
	b.accessible()
	point := func(row int) chromedp.Action { // at the last of its squares
		return chromedp.Evaluate(fmt.Sprintf(`(() => {
			const map = document.querySelector(".map"), box = map.getBoundingClientRect();
			const at = { clientX: box.left + box.width * 0.999, clientY: box.top + 1 + %d * box.width / 20 };
			map.dispatchEvent(new PointerEvent("pointermove", { ...at, bubbles: true }));
		})()`, row), nil)
	}
	b.do(point(0))
	b.says("lab-19") // the last of the first row of 20
	b.do(chromedp.Focus(".map"), chromedp.KeyEvent(kb.ArrowLeft))
	b.says("lab-18")
	var live, chosen string
	b.do(chromedp.Evaluate(`refresh().then(() => document.getElementById("live").textContent)`, &live,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if strings.Contains(live, "has changed") {
		t.Errorf("a square that was chosen is a change of the map: %s", live)
	}
	b.do(point(1), chromedp.Text(".at", &chosen))
	if chosen != "" {
		t.Errorf("where no server is, the map names %s", chosen)
	}
	b.do(chromedp.KeyEvent(kb.ArrowRight), point(0), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.Enter))
	b.at("/console/servers/lab-18")

	b.do(chromedp.Navigate(b.site+"/console/map"), chromedp.Click("//ul[@class='legend']//a[text()='online']"))
	b.says("2 servers.")
	for _, by := range []string{"environment", "silence", "version&agent=beacon"} {
		b.do(chromedp.Navigate(b.site + "/console/map?by=" + by))
		b.says("32 servers, by environment and name.")
		b.accessible()
	}
	b.do(chromedp.Click("//ul[@class='legend']//a[text()='1.0.0']"))
	b.says("Versions over time")
	b.accessible()

	b.do(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(b.site+"/console/map"))
	b.do(chromedp.Click("//ul[@class='legend']//a[text()='invited']"))
	b.says("30 servers.")
}

// Machines in the lobby are answered in the browser, where the fleet's page leads.
func TestTheLobbyIsAnsweredInTheBrowser(t *testing.T) {
	t.Parallel()
	w := scenario.New(t, rig.Options{Metrics: true, Lobby: true})
	s, err := w.Stranger("stranger")
	scenario.Must(t, err)
	scenario.Must(t, s.Executor.Start())
	fingerprint := ""
	w.Eventually("a machine waits", func() error {
		if fingerprint = strings.TrimSpace(w.OK("server", "list", "--lobby", "-o", "name")); fingerprint == "" {
			return errors.New("the lobby is empty")
		}
		return nil
	})
	b := open(t, w)
	b.signIn(w, "/console/")
	b.do(chromedp.Click("//a[contains(., 'in the lobby')]"))
	b.at("/console/lobby")
	b.says(fingerprint)
	b.accessible()
	b.act("reject", "garrison server reject "+fingerprint+" -m 'not ours'",
		map[string]string{"fingerprint": fingerprint, "why": "not ours"})
	b.says("rejected until ")
	if left := w.OK("server", "list", "--lobby", "-o", "name"); left != "" {
		t.Errorf("in the lobby are still %q", left)
	}
}
