package logs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

func TestALineHasNothingThatSteersTheTerminal(t *testing.T) {
	const hostile = "\x1b[2J\u009b31m\u202e\u2028\x7f"
	var out strings.Builder
	log, err := logs.New(&out, "registry", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Warn().Str(logs.Reason, hostile).Msg("task " + hostile)
	var line map[string]string
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line[logs.Reason] != hostile {
		t.Errorf("%v: %q", err, &out)
	}
	if strings.ContainsFunc(out.String(), visible.Steers) {
		t.Errorf("%q", &out)
	}
}
