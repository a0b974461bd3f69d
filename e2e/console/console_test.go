package console_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

func TestMain(m *testing.M) { scenario.Main(m) }

// within bounds each step in the browser.
const within = time.Minute

// browser is a browser that somebody uses.
type browser struct {
	*testing.T
	ctx  context.Context
	site string // the address of the gateway
}

// open starts a browser. It fails its test when a page logs an error, or asks another host for anything.
func open(t *testing.T, w *scenario.World) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium is installed: apt-get install chromium")
	}
	profile, err := os.MkdirTemp("", "browser")
	scenario.Must(t, err)
	t.Cleanup(func() { // processes of a browser that has ended may write for a moment longer
		polltest.Succeeds(t, "the browser's profile is removed", func() error { return os.RemoveAll(profile) })
	})
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.UserDataDir(profile))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	b := &browser{T: t, ctx: ctx, site: address(t, w)}
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context of its first run
		t.Fatal(err)
	}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, b.site) && !strings.HasPrefix(e.Request.URL, "data:") {
				t.Errorf("the page asks for %s", e.Request.URL)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError && !expected(e.Entry) {
				t.Errorf("the browser logs: %s %s", e.Entry.Text, e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			t.Errorf("a script failed: %s", e.ExceptionDetails.Text)
		}
	})
	b.do(network.Enable(), log.Enable(), runtime.Enable(), chromedp.EmulateViewport(1440, 900))
	return b
}

// expected reports whether a logged error is one that a person is shown anyway, or that a browser asks for by itself.
func expected(e *log.Entry) bool {
	return e.Source == log.SourceNetwork &&
		(strings.Contains(e.Text, "403") || strings.HasSuffix(e.URL, "/favicon.ico"))
}

// address returns where the gateway of a fleet serves.
func address(t *testing.T, w *scenario.World) string {
	t.Helper()
	out := w.OK("console", "--no-browser")
	found := regexp.MustCompile(`http://[0-9.:]+`).FindString(out)
	if found == "" {
		t.Fatalf("there is no address in: %s", out)
	}
	return found
}

// do carries out steps, each within a bound.
func (b *browser) do(steps ...chromedp.Action) {
	b.Helper()
	for _, step := range steps {
		ctx, cancel := context.WithTimeout(b.ctx, within)
		err := chromedp.Run(ctx, step)
		cancel()
		if err != nil {
			b.shoot("failed")
			b.Fatalf("%v, on a page that says:\n%s", err, b.text())
		}
	}
}

// text returns what the page says.
func (b *browser) text() (text string) {
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Evaluate("document.body.innerText", &text)); err != nil {
		return err.Error()
	}
	return text
}

// says waits until the page says something.
func (b *browser) says(want string) {
	b.Helper()
	b.until("the page says "+want, func() bool { return strings.Contains(b.text(), want) })
}

func (b *browser) until(what string, is func() bool) {
	b.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.shoot("failed")
			b.Fatalf("not within %s: %s; the page says:\n%s", within, what, b.text())
		}
	}
}

// loaded waits until the page's script hears keys.
func (b *browser) loaded() {
	b.Helper()
	b.until("the page is loaded", func() (done bool) {
		err := chromedp.Run(b.ctx, chromedp.Evaluate("document.readyState === 'complete'", &done))
		return err == nil && done
	})
}

// signIn signs in with a code of the CLI, and is then on the page at a path.
func (b *browser) signIn(w *scenario.World, path string, args ...string) {
	b.Helper()
	out := w.OK(append([]string{"console", "--no-browser"}, args...)...)
	code := regexp.MustCompile(`[A-Z2-7]{5}-[A-Z2-7]{5}`).FindString(out)
	b.do(chromedp.Navigate(b.site+path), chromedp.SendKeys("#code", code+"\r"),
		chromedp.WaitVisible("input[name=confirmed] ~ button"), chromedp.Click("input[name=confirmed] ~ button"),
		chromedp.WaitVisible("#main"))
}

// shoot keeps a picture of the page, below the directory that SCREENSHOTS names.
func (b *browser) shoot(name string) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	if err := chromedp.Run(b.ctx, chromedp.FullScreenshot(&png, 100)); err != nil {
		b.Log(err)
		return
	}
	name = strings.ReplaceAll(b.Name(), "/", "-") + "-" + name + ".png"
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o600); err != nil {
		b.Log(err)
	}
}

// plan asks for a change on the page of servers, and is then on the page of its plan.
func (b *browser) plan(verb, version string) {
	b.Helper()
	b.do(chromedp.Navigate(b.site+"/console/servers"), chromedp.Click("summary"),
		chromedp.SetValue("select[name=verb]", verb), chromedp.SendKeys("input[name=agent]", "beacon"),
		chromedp.SendKeys("input[name=version]", version), chromedp.SendKeys("input[name=why]", "T-1"),
		chromedp.Click("form[action='/console/plan'] button"))
	b.says("Plan: ")
}

func world(t *testing.T) *scenario.World {
	t.Helper()
	return scenario.New(t, rig.Options{Metrics: true, Lazy: true}, "web-1", "web-2")
}

// A person installs, upgrades and undoes in the browser, and the page of a rollout follows it by itself.
func TestAFleetIsChangedInTheBrowser(t *testing.T) {
	t.Parallel()
	w := world(t)
	b := open(t, w)
	b.signIn(w, "/console/servers?on=all")
	b.says("web-2")
	b.plan("install", "1.0.0")
	b.says("Do it on 2 servers")
	b.accessible()
	b.do(chromedp.Click("form[action='/console/start'] button"))
	b.says("install beacon")
	b.says("T-1")
	b.says("succeeded") // without a reload
	w.Converges("1.0.0")

	b.plan("up", "2.0.0")
	b.do(chromedp.Click("form[action='/console/start'] button"))
	b.says("Undo: show the plan")
	b.accessible()
	w.Converges("2.0.0")
	b.do(chromedp.Click("form[action='/console/plan'] button"))
	b.says("Do it on 2 servers")
	b.do(chromedp.Click("form[action='/console/start'] button"))
	w.Converges("1.0.0")

	b.do(chromedp.Navigate(b.site + "/console/servers/web-1"))
	b.says("The server is as it is wanted.")
	b.accessible()
	b.do(chromedp.Navigate(b.site + "/console/events?noun=rollout"))
	b.says("undo of upgrade beacon to 2.0.0")
}

// The same without JavaScript: pages are forms and links.
func TestAFleetIsChangedWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := world(t)
	b := open(t, w)
	b.signIn(w, "/console/")
	b.do(emulation.SetScriptExecutionDisabled(true))
	b.plan("install", "1.0.0")
	b.do(chromedp.Click("form[action='/console/start'] button"))
	w.Converges("1.0.0")
	b.do(chromedp.Navigate(b.site + "/console/rollouts"))
	b.says("install beacon")
}

// Keys lead to every page, and to the search field.
func TestPagesAreReachedByKeys(t *testing.T) {
	t.Parallel()
	w := world(t)
	b := open(t, w)
	b.signIn(w, "/console/")
	for key, title := range map[string]string{
		"s": "Servers", "a": "Agents", "d": "Differences", "r": "Rollouts", "i": "Images", "e": "Environments",
		"l": "Ledger", "p": "People", "f": "Fleet", "t": "Tasks", "h": "Holds",
	} {
		b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent(key))
		b.until("the page is "+title, func() bool {
			var have string
			_ = chromedp.Run(b.ctx, chromedp.Text("h1", &have))
			return have == title
		})
		b.loaded()
		b.accessible()
	}
	b.do(chromedp.Navigate(b.site+"/console/servers"), chromedp.KeyEvent("/"),
		chromedp.WaitReady("#search:focus"), chromedp.SetValue("#search", "web-1"), chromedp.KeyEvent("\r"))
	b.says("1 server.")
	b.loaded()
	b.do(chromedp.KeyEvent("?"))
	b.says("go to the search field")
}
