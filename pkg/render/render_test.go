package render_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/render"
)

var data = render.Data{
	Agent: "beacon", Version: "1.0.0", Server: "s", State: "/state", Image: "/image", Config: "/config",
	Labels:   map[string]string{"rack": "a", "data-centre": "x"},
	Metadata: map[string]string{"level": "info", "odd": "a\"<b>\nc", "evil": "{{.server}}"},
}

func rendered(t *testing.T, text string) (string, error) {
	t.Helper()
	tmpl, err := render.Parse("test", text)
	if err != nil {
		return "", err
	}
	out, err := tmpl.Render(data)
	if again, _ := tmpl.Render(data); string(again) != string(out) {
		t.Errorf("%s gives %q, and then %q", text, out, again)
	}
	return string(out), err
}

func TestATemplateBecomesItsText(t *testing.T) {
	for text, want := range map[string]string{
		"{{.agent}} {{.version}} {{.server}} {{.state}} {{.image}} {{.config}}": "beacon 1.0.0 s /state /image /config",
		"{{.labels.rack}}{{.metadata.level}}":                                   "ainfo",
		`{{lookup .labels "data-centre"}}{{index .labels "rack"}}`:              "xa",
		`{{lookup .metadata "none" "else"}}`:                                    "else",
		`{{quote .metadata.odd}}`:                                               `"a\"<b>\nc"`,
		`{{json .labels}}`:                                                      `{"data-centre":"x","rack":"a"}`,
		`{{.metadata.evil}}`:                                                    "{{.server}}", // what is filled in is not looked at again
		`{{range $k, $v := .labels}}{{$k}}={{$v}};{{else}}none{{end}}`:          "data-centre=x;rack=a;",
		`{{define "x"}}<{{.}}>{{end}}{{template "x" .agent}}`:                   "<beacon>",
		`{{if eq .metadata.level "info"}}yes{{else}}no{{end}}`:                  "yes",
		`{{with .agent}}{{printf "%s-%d" . 7}}{{end}}`:                          "beacon-7",
	} {
		if got, err := rendered(t, text); err != nil || got != want {
			t.Errorf("%s gives %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestWhatIsNotThereOrNotAllowedIsAnError(t *testing.T) {
	for _, text := range []string{
		"{{.metadata.none}}", "{{.labels.none}}", "{{.none}}", `{{lookup .metadata "none"}}`, `{{index .labels "none"}}`,
		"{{", "{{none}}", "{{if}}", `{{template "none"}}`, `{{html "a"}}`, `{{js "a"}}`, `{{urlquery "a"}}`, "{{.agent.x}}",
		strings.Repeat("x", render.MaxTemplate+1),
	} {
		if got, err := rendered(t, text); err == nil {
			t.Errorf("%.40s gives %.40q", text, got)
		}
	}
}

// What a template can do wrong costs a bounded time and a bounded memory.
func TestRenderingEnds(t *testing.T) {
	for name, text := range map[string]string{
		"a loop without output":   "{{range 1000000000}}{{end}}",
		"loops in loops":          "{{range 100000}}{{range 100000}}{{if true}}{{end}}{{end}}{{end}}",
		"a loop in a condition":   "{{if true}}{{range 1000000000}}{{end}}{{end}}",
		"a template calls itself": `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`,
		"and twice":               `{{define "a"}}{{template "a" .}}{{template "a" .}}{{end}}{{template "a" .}}`,
		"a text that doubles":     `{{$x := "aaaa"}}{{range 100}}{{$x = print $x $x}}{{end}}`,
		"a text that is escaped":  `{{$x := "\"\""}}{{range 100}}{{$x = quote $x}}{{end}}`,
		"a wide number":           `{{$x := ""}}{{range 100}}{{$x = printf "%s%999999d" $x 1}}{{end}}`,
		"a large output":          `{{range 10000}}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{end}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		out, err := rendered(t, text)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s gives %d bytes", name, len(out))
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 512<<20 {
			t.Errorf("%s used %d MiB", name, used>>20)
		}
		t.Logf("%s: %s, %d MiB, stack %d MiB: %.100v", name, time.Since(began), (after.TotalAlloc-before.TotalAlloc)>>20, after.StackSys>>20, err)
	}
}
