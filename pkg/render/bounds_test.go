package render

import (
	"errors"
	"fmt"
	"math"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// A template whose actions are slow, and not many, ends as well.
func TestNoActionBeginsAfterTheTime(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("{{.agent}}", 1000), "{{range 1000}}{{end}}",
		"{{range 10}}{{if eq 1 1}}a{{else}}b{{end}}{{$.agent}}{{end}}",
		`{{$x := printf "` + strings.Repeat("%[1]d", 1000) + `" 1}}`,
	} {
		tmpl, err := Parse("test", text)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(0, 0)
		calls := 0
		_, err = tmpl.render(Data{Agent: "a"}, func() time.Time { calls++; at = at.Add(maxTime / 5); return at })
		if !errors.Is(err, errTime) || calls > 8 {
			t.Errorf("%.40s: %v after %d looks at the clock, want %v", text, err, calls, errTime)
		}
	}
}

// allocated returns how many bytes were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func FuzzRenderingIsBounded(f *testing.F) {
	for _, text := range []string{
		"{{.agent}}{{.labels.rack}}", `{{printf "%999999[1]d" 1}}`, `{{printf "%*.*f" 9 9 1.5}}`,
		`{{$x := "aaaa"}}{{range 100}}{{$x = print $x $x}}{{end}}`,
		`{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`,
		`{{range $k, $v := .labels}}{{$k | quote | json}}{{else}}none{{end}}`,
		`{{with lookup .metadata "x" "y"}}{{.}}{{end}}`,
		`{{if and (eq .agent "a") (lt 1 2)}}{{len .agent | printf "%08b"}}{{end}}{{slice .agent 1 2}}{{break}}`,
	} {
		f.Add(text)
	}
	data := Data{
		Agent: "beacon", Labels: map[string]string{"rack": strings.Repeat("a", 1<<10)},
		Metadata: map[string]string{"x": strings.Repeat("\x00", 1<<10)},
	}
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		before := allocated()
		out, err := tmpl.Render(data)
		if len(out) > MaxOutput {
			t.Fatalf("%d bytes", len(out))
		}
		if used := allocated() - before; used > 160<<20 {
			t.Fatalf("%d MiB for %d bytes, %v", used>>20, len(out), err)
		}
	})
}

// Where printf returns a text, it is that of package fmt.
func FuzzPrintfIsSprintf(f *testing.F) {
	for _, format := range []string{
		"%s-%d", "%[2]*[1]d", "%-08.3f%%", "%+q|% x|%#v", "%.*s", "%[3]*.[2]*[1]f", "%[1]s%[1]s", "%!", "%.", "%5.%",
		"%0-5d", "%[1][2]d", "%[1]5d", "%[1].2d", "%é", "%-*d", "%.-3d", "%v%T%p", "%",
	} {
		f.Add(format, "text", 12, 1.5)
	}
	f.Fuzz(func(t *testing.T, format, text string, n int, x float64) {
		for _, args := range [][]any{{}, {text}, {n, text}, {text, n, x}, {x, n, n}, {n, n, x}} {
			b := newBudget(time.Now)
			got, err := b.printf(format, args...)
			if err != nil {
				continue // what is refused may be larger than memory
			}
			if want := fmt.Sprintf(format, args...); got != want {
				t.Fatalf("printf(%q, %v) is %q, want %q", format, args, got, want)
			}
		}
	})
}

func TestPrintfRefusesOnlyWhatIsTooLargeOrWrong(t *testing.T) {
	args := []any{"text", 12, math.Pi}
	for _, format := range []string{
		"%s %d %f", "%[3]*.[2]*[1]s", "%10s%-10d%.3f", "%.3s%+d%8.2e", "%v%v%v", "%q%x%g", "%%%s%d%f",
	} {
		b := newBudget(time.Now)
		got, err := b.printf(format, args...)
		if format == "%[3]*.[2]*[1]s" {
			if !errors.Is(err, errIndex) { // a width that is no whole number
				t.Errorf("%s: %q, %v", format, got, err)
			}
			continue
		}
		if want := fmt.Sprintf(format, args...); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", format, got, err, want)
		}
	}
}
