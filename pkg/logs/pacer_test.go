package logs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestAPacerWritesOneLineAMinuteAboutEachKey(t *testing.T) {
	var out bytes.Buffer
	log, p := zerolog.New(&out), NewPacer()
	for range 1000 {
		p.Warn(log, "a").Str(Server, "a").Err(nil).Msg("report refused")
	}
	p.Warn(log, "b").Str(Server, "b").Msg("report refused")
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, &out)
	}
}
