package ssh

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/visible"
)

// Host is a machine on which an executor program runs over ssh.
type Host struct {
	Command string // the login command with its options
	To      string // USER@HOST
	Root    string // of the executor
	Program string // the executor program
	Upload  string // a local file to upload and run instead, or ""
	Sudo    bool
}

// CleanUp is one run of the executor's program on the machine of a dead server.
type CleanUp struct {
	Tombstone *serverv1.Tombstone // the proof that the server is dead
	Timeout   time.Duration
	DryRun    bool
	Now       func() time.Time
	Say       func(format string, args ...any) // prints a line for a person
}

// Clean runs the executor's program on the machine once and returns its outcome. An error means that the program
// was not started, or that the context ended.
func (m *Host) Clean(ctx context.Context, c CleanUp) (Outcome, error) {
	id := c.Tombstone.GetServerId()
	tombstone, err := protojson.Marshal(c.Tombstone)
	if err != nil {
		return nil, err
	}
	command, in, err := m.command(append(tombstone, '\n'), c.Timeout*3/4, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // opened for reading only
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	words := strings.Fields(m.Command)
	cmd := exec.CommandContext(limited, words[0], append(words[1:], "--", m.To, command)...)
	cmd.WaitDelay = time.Second
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, stderr
	failed := cmd.Run()
	for line := range strings.Lines(stderr.String()) {
		c.Say("%s: %s", m.To, visible.Text(strings.TrimSpace(line)))
	}
	if ctx.Err() != nil {
		c.Say(
			"the clean-up at %s may continue there; the same command resumes it, and reports NO_EXECUTOR when "+
				"nothing is left or nothing was there",
			m.To,
		)
		return nil, context.Cause(ctx)
	}
	o := answerOf(stdout.String(), id)
	if o == nil {
		o = &reportv1.CleanUpOutcome{Refusal: m.failure(limited, failed, stderr.String()), DryRun: c.DryRun}
	}
	if o.ServerId = id; o.GetAt() == nil {
		o.At = timestamppb.New(c.Now())
	}
	return o, nil
}

// answerOf returns the outcome in the last line of the output, since a shell may print lines before it; nil without an
// outcome, or for one of another server.
func answerOf(printed, id string) Outcome {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	o, err := ParseOutcome([]byte(lines[len(lines)-1]))
	if err != nil || o.GetServerId() != id && o.GetRefusal() == nil {
		return nil
	}
	return o
}

// bounded is a buffer that keeps the first MaxReceipt bytes and discards the rest.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer. It never fails.
func (b *bounded) Write(p []byte) (int, error) {
	room := max(MaxReceipt-b.Len(), 0)
	_, _ = b.Buffer.Write(p[:min(len(p), room)]) // a buffer accepts everything
	return len(p), nil
}
