// Package mounts finds other file systems that are mounted in a directory. What is in one of
// those is not ours, so whoever deletes a directory asks Check right before: a deletion does
// not stop at a mount by itself.
package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Code refuses to delete a directory in which something is mounted.
const Code = "MOUNTED"

// Check refuses a directory when something is mounted at or below it.
func Check(dir string) error {
	found, err := below(dir)
	if err != nil || len(found) == 0 {
		return err
	}
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: Code, Message: strings.ToValidUTF8(
		"something is mounted at "+strings.Join(found, " and ")+": nothing in there is deleted, so it must be unmounted first", "?")})
}

// below gives the places at or below a directory where another file system is mounted
// (proc(5), mountinfo, field 5). At one that is not there, nothing is.
func below(dir string) (out []string, err error) {
	real, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find mounts: %w", err)
	}
	real = filepath.Join(real, filepath.Base(dir))
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find mounts: %w", err)
	}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 {
			continue
		}
		if at := plainPath(fields[4]); at == real || strings.HasPrefix(at, real+"/") {
			out = append(out, at)
		}
	}
	return out, nil
}

// plainPath gives a path as it is: the kernel writes spaces and the like as \ and three digits.
func plainPath(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		if len(s) > 3 && s[0] == '\\' {
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				out.WriteByte(byte(c))
				s = s[4:]
				continue
			}
		}
		out.WriteByte(s[0])
		s = s[1:]
	}
	return out.String()
}
