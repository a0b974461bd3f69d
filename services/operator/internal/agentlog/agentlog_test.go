package agentlog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestLinesAreSaidToBeOfAVersion(t *testing.T) {
	var to bytes.Buffer
	env := cli.NewEnv(strings.NewReader(""), &to, &to, func(string) string { return "" })
	p := newPrinter(env, false)
	for _, part := range []client.LogPart{
		{Data: []byte("one\n"), Version: "1.0.0"},
		{Data: []byte("end"), Version: "1.0.0"},
		{Data: []byte("two\n"), Version: "2.0.0\x1b[2J"},
		{Version: ""},
	} {
		if err := p.print(env, part); err != nil {
			t.Fatal(err)
		}
	}
	want := "output of version 1.0.0:\none\nend\noutput of version 2.0.0"
	if got := to.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, ":\ntwo\n") ||
		strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
