package allinone

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestAClientCausesOneLineAMinute(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &serverLog{log: zerolog.New(&out)}
	user := "U" + strings.Repeat("A", 55)
	for n := range 1000 {
		l.Errorf("10.0.0.1:%d - cid:%d - authentication error", 2000+n, n)
		l.Errorf("%s - Publish Violation - Subject %q",
			fmt.Sprintf(`10.0.0.2:%d - cid:%d - "v1:go:x%d" - "A/NODES/jwt:%s"`, 2000+n, n, n, user),
			fmt.Sprintf("garrison.x.%d", n))
		l.Errorf("10.0.0.3:4000 - cid:%d - authentication error", n)
		l.Warnf("JetStream is slow %d", n%2)
	}
	lines := strings.Count(out.String(), "\n")
	if slow := strings.Count(out.String(), "JetStream is slow"); slow != 1000 || lines != 1003 {
		t.Errorf("%d lines, %d of the server itself; want 1003 and 1000", lines, slow)
	}
	out.Reset()
	l.sum()
	text := out.String()
	if strings.Count(text, `"count":999`) != 3 || !strings.Contains(text, `"host":"10.0.0.1"`) ||
		!strings.Contains(text, user) {
		t.Errorf("the sum is\n%s", text)
	}
	l.Errorf("10.0.0.1:1 - cid:1 - authentication error")
	if !strings.Contains(out.String(), "authentication error\"}") {
		t.Error("nothing is written in the next minute")
	}
}

func TestTheCausesOfAMinuteAreBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &serverLog{log: zerolog.New(&out)}
	for n := range 3 * maxCauses {
		l.Errorf("10.0.%d.%d:7 - cid:%d - authentication error", n/250, n%250, n)
	}
	if lines := strings.Count(out.String(), "\n"); lines != maxCauses+1 || len(l.causes) != maxCauses+1 {
		t.Errorf("%d lines of %d causes, want %d", lines, len(l.causes), maxCauses+1)
	}
}
