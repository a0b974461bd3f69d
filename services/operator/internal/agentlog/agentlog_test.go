package agentlog

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	logv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/log/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestLinesAreSaidToBeOfAVersion(t *testing.T) {
	var to bytes.Buffer
	env := cli.NewEnv(strings.NewReader(""), &to, &to, func(string) string { return "" })
	p := newPrinter(env, logFlags{})
	for _, part := range []client.LogPart{
		{Version: "0.9.0"}, // it wrote nothing
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

func TestLinesHaveTheTimeByWhichTheyWereWritten(t *testing.T) {
	var to bytes.Buffer
	env := cli.NewEnv(strings.NewReader(""), &to, &to, func(string) string { return "" })
	p := newPrinter(env, logFlags{times: true})
	p.name = "web-1"
	at := func(end uint32, second int) *logv1.Mark {
		return &logv1.Mark{End: end, By: timestamppb.New(time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC))}
	}
	for _, part := range []client.LogPart{
		{Data: []byte("one\ntwo\nth"), Marks: []*logv1.Mark{at(4, 1), at(10, 2)}},
		{Data: []byte("ree\nend"), Marks: []*logv1.Mark{at(7, 3)}},
		{Data: []byte("\n")},
	} {
		if err := p.print(env, part); err != nil {
			t.Fatal(err)
		}
	}
	want := "web-1: 2026-01-02T03:04:01Z one\nweb-1: 2026-01-02T03:04:02Z two\nweb-1: 2026-01-02T03:04:03Z three\n" +
		"web-1: end\n"
	if got := to.String(); got != want {
		t.Errorf("%q; want %q", got, want)
	}
}
