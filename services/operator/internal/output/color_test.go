package output

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/listing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// A state that is added to the contract needs a row, be it one without a colour.
func TestEveryStateOfTheContractHasARowInTheTableOfColors(t *testing.T) {
	for _, e := range []protoreflect.Enum{
		serverv1.Life(0), serverv1.Presence(0), serverv1.Standing(0), serverv1.ExecutorState(0), taskv1.State(0),
		rolloutv1.State(0), rolloutv1.TargetState(0), imagev1.State(0), instancev1.State(0), instancev1.Health(0),
		registryv1.DefaultState(0), intentv1.State(0), userv1.State(0), tokenv1.State(0),
	} {
		for _, word := range listing.Words(e.Descriptor()) {
			if _, ok := states[word]; !ok {
				t.Errorf("%s: %q has no row in states", e.Descriptor().FullName(), word)
			}
		}
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9]+m")

func TestColorChangesNeitherTheTextNorTheWidthsOfATable(t *testing.T) {
	states := listing.Listing[[2]string]{Name: func(r [2]string) string { return r[0] },
		Columns: []listing.Column[[2]string]{
			listing.Col("NAME", func(r [2]string) string { return r[0] }),
			listing.Col("STATE", func(r [2]string) string { return r[1] }),
			listing.Col("NEXT", func(r [2]string) string { return "" }),
			listing.Col("REASON", func(r [2]string) string {
				return "1.0.0 → 1.1.0: a longer text about the change " + r[0]
			}),
		}}
	rows := [][2]string{{"web-1", "alive,online"}, {"web-22", "failed"}, {"w\u4e16", "converged"}}
	for _, width := range []int{0, 40, 200} {
		var bare, painted strings.Builder
		for out, paint := range map[*strings.Builder]Paint{&bare: false, &painted: true} {
			p := printer(out, FormatTable)
			p.Paint, p.Width = paint, func() int { return width }
			if err := Show(p, states, nil, rows); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(bare.String(), "\x1b") || !strings.Contains(painted.String(), "\x1b[31mfailed\x1b[0m") {
			t.Errorf("width %d: bare %q, painted %q", width, &bare, &painted)
		}
		if d := cmp.Diff(bare.String(), escape.ReplaceAllString(painted.String(), "")); d != "" {
			t.Errorf("width %d (-bare +painted):\n%s", width, d)
		}
	}
}

func TestDocumentsRowsAndNamesAreNeverColored(t *testing.T) {
	for _, format := range []string{FormatJSON, FormatJSONL, FormatYAML, FormatName} {
		var out strings.Builder
		p := printer(&out, format)
		p.Paint = true
		rows := servers()
		err := Show(p, testTable, &registryv1.ListServersResponse{Servers: rows}, rows)
		if err == nil {
			err = ShowOne(p, p.View(), testTable, rows[0])
		}
		if err == nil {
			err = ShowDocument(p, map[string]any{"online": 1, "name": ""}, "1 online\n")
		}
		if err != nil || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %v, %q", format, err, &out)
		}
	}
}

func TestTheStateOrTheCodeOfAMessageIsColored(t *testing.T) {
	for message, want := range map[string]string{
		"done: 2 tasks succeeded":                     "<32>done</>: 2 tasks succeeded",
		"web-1: up web 1.0 → 1.1: undone after 1s: x": "web-1: up web <2>1.0</> → <1>1.1</>: <31>undone</> after 1s: x",
		"registry: NO_MATCH: no image. Try: x":        "registry: <31>NO_MATCH</>: no image. Try: x",
		"garrison: interrupted":                       "garrison: interrupted",
		"found 3 agents":                              "found 3 agents",
		"left the view; the work continues":           "left the view; the work continues",
	} {
		have := strings.NewReplacer("\x1b[0m", "</>", "\x1b[", "<", "m<", "m<").Replace(Paint(true).Message(message))
		have = regexp.MustCompile(`<([0-9]+)m`).ReplaceAllString(have, "<$1>")
		if have != want {
			t.Errorf("have %q, want %q", have, want)
		}
		if Paint(false).Message(message) != message {
			t.Errorf("%q is changed without colour", message)
		}
	}
}

func TestALineThatIsCutToTheTerminalIsColoredAfterwards(t *testing.T) {
	var out strings.Builder
	l := &Live{W: &out, On: true, Paint: true, Width: func() int { return 30 }}
	l.Set("[####....] 3 succeeded  1 failed  7 running")
	have := strings.TrimPrefix(out.String(), "\r\x1b[K")
	if !strings.Contains(have, "\x1b[32m3 succeeded\x1b[0m") || text.StringWidthWithoutEscSequences(have) != 29 {
		t.Errorf("have %q", have)
	}
}
