package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// command returns the command line for the machine's shell and the content of its standard input.
func (m *Host) command(
	tombstone []byte,
	within time.Duration,
	dryRun bool,
) (command string, in io.ReadCloser, err error) {
	words := func(program string) string {
		line := program + " uninstall --root " + output.Quote(m.Root) + " --tombstone - -o json --within " + max(within,
			time.Second).Round(time.Second).
			String()
		if dryRun {
			line += " --dry-run"
		}
		if m.Sudo {
			line = "sudo -n " + line
		}
		return line
	}
	if m.Upload == "" {
		return words(output.Quote(m.Program)), io.NopCloser(bytes.NewReader(tombstone)), nil
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
	return "sh -c " + output.Quote(fmt.Sprintf(uploading, info.Size(), words(`"$d/executor"`))), in, nil
}

// uploading is a shell script that stores its input after the first line as a program and runs it with that line as
// input. A program that did not arrive whole is not run. The directory is removed in every case.
const uploading = `umask 077; IFS= read -r tombstone; d=$(mktemp -d) || exit 74; ` +
	`trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM; ` +
	`cat >"$d/executor"; n=$(wc -c <"$d/executor"); [ "$n" -eq %d ] || exit 74; ` +
	`chmod 700 "$d/executor"; printf '%%s\n' "$tombstone" | %s`
