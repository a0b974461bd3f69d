// Package ssh runs the executor's program on the machine of a dead server over ssh, to remove what Garrison left there.
//
// Host is the whole interface: where to log in and which program to run. Host.Clean runs it once and returns its
// outcome; a run that ended without one is an outcome with a refusal.
//
//  1. The server's tombstone is sent along. The program there verifies it and decides by itself what it removes.
//  2. Every word of the remote command line is quoted. A login that ssh would read as an option is refused.
//  3. An uploaded program that did not arrive whole is not run, and is removed however the run ends.
//  4. Output is read up to a bound.
package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/visible"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
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

// command returns the command line for the machine's shell and the content of its standard input.
func (m *Host) command(
	tombstone []byte,
	within time.Duration,
	dryRun bool,
) (command string, in io.ReadCloser, err error) {
	words := func(program string) string {
		line := program + " uninstall --root " + listing.Quote(m.Root) + " --tombstone - -o json --within " +
			max(within, time.Second).Round(time.Second).String()
		if dryRun {
			line += " --dry-run"
		}
		if m.Sudo {
			line = "sudo -n " + line
		}
		return line
	}
	if m.Upload == "" {
		return words(listing.Quote(m.Program)), io.NopCloser(bytes.NewReader(tombstone)), nil
	}
	file, err := regular.Open(m.Upload)
	if err != nil {
		return "", nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(m.Upload + " is not a regular file")
	}
	if err != nil {
		return "", nil, errors.Join(err, file.Close())
	}
	in = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(tombstone), file), file}
	return "sh -c " + listing.Quote(fmt.Sprintf(uploading, info.Size(), words(`"$d/executor"`))), in, nil
}

// uploading is a shell script that stores its input after the first line as a program and runs it with that line as
// input. A program that did not arrive whole is not run. The directory is removed in every case.
const uploading = `umask 077; IFS= read -r tombstone; d=$(mktemp -d) || exit 74; ` +
	`trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM; ` +
	`cat >"$d/executor"; n=$(wc -c <"$d/executor"); [ "$n" -eq %d ] || exit 74; ` +
	`chmod 700 "$d/executor"; printf '%%s\n' "$tombstone" | %s`

// CheckLogin refuses a login that ssh would read as an option, or a shell as more than one word.
func CheckLogin(s string) error {
	if s == "" || strings.HasPrefix(s, "-") ||
		strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q is not USER@HOST", s)
	}
	return nil
}

// Outcome is the outcome of a clean-up.
type Outcome = *reportv1.CleanUpOutcome

// MaxReceipt is the largest size of a receipt.
const MaxReceipt = 16 << 20

// ParseOutcome parses the JSON of an outcome. Unknown fields are ignored.
func ParseOutcome(data []byte) (Outcome, error) {
	o := &reportv1.CleanUpOutcome{}
	return o, (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, o)
}

// The exit codes that tell why no outcome was printed.
const (
	exitBadUsage    = 2   // of the executor
	exitNotUploaded = 74  // of uploading
	exitNoPermit    = 126 // of every shell: not executable
	exitNoProgram   = 127 // of every shell: not found
	exitSSH         = 255 // of ssh
)

// failure returns a refusal with the reason why no outcome was printed.
func (m *Host) failure(ctx context.Context, failed error, stderr string) *apiv1.Refusal {
	last := visible.Text(strings.TrimSpace(stderr))
	if i := strings.LastIndex(last, "\n"); i >= 0 {
		last = last[i+1:]
	}
	r := &apiv1.Refusal{Component: "garrison", Try: "the same command again"}
	if ctx.Err() != nil {
		r.Code, r.Message = code.TimedOut, "no answer from "+m.To+" within the time limit; the clean-up may "+
			"continue there"
		return r
	}
	switch exit := exitOf(failed); exit {
	case exitSSH:
		r.Code, r.Message, r.Try = code.SshFailed, fmt.Sprintf("cannot reach %s by ssh: %v", m.To, failed),
			m.Command+" "+m.To
		if unstarted(failed) {
			r.Message, r.Try = fmt.Sprintf("cannot start the ssh command: %v", failed), "--ssh-command COMMAND"
		}
	case exitNotUploaded:
		r.Code, r.Message = code.NotUploaded, fmt.Sprintf(
			"%s did not arrive whole in a temporary directory at %s, and was not run", m.Upload, m.To)
	case exitNoPermit, exitNoProgram, exitBadUsage:
		r.Code, r.Message = code.NoProgram, fmt.Sprintf(
			"%s has no executor program %q that can do this: exit code %d", m.To, m.Program, exit)
		r.Try = "--upload FILE with a current one for that machine"
	default:
		r.Code, r.Message = code.NotCleaned, fmt.Sprintf("no receipt came from %s: exit code %d", m.To, exit)
	}
	if last != "" {
		r.Message += ": " + last
	}
	return r
}

// unstarted reports whether a command failed because it could not be started.
func unstarted(failed error) bool {
	_, unknown := errors.AsType[*exec.Error](failed)
	_, unusable := errors.AsType[*fs.PathError](failed)
	return unknown || unusable
}

// exitOf returns the exit code of a command over ssh. For a command that could not be started it returns ssh's own
// code.
func exitOf(failed error) int {
	if failed == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](failed); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	return exitSSH
}
