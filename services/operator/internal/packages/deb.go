package packages

import (
	"context"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/operator/internal/unpack"
)

const (
	arMagic    = "!<arch>\n"
	maxControl = 1 << 20 // bytes of a file in the control archive
	maxMembers = 16
)

// controlFiles are the files of control.tar that count: two lists, and what dpkg runs.
var controlFiles = []string{"control", "conffiles", "config", "preinst", "postinst", "prerm", "postrm", "triggers"}

// readDeb reads a Debian package: an ar archive of debian-binary, control.tar and data.tar.
func readDeb(ctx context.Context, whole unpack.Archive) (s software, err error) {
	members, err := arMembers(whole)
	if err != nil {
		return s, err
	}
	s.format = "deb"
	var control unpack.Archive
	for name, member := range members {
		switch {
		case name == "control.tar" || strings.HasPrefix(name, "control.tar."):
			control = member
		case name == "data.tar" || strings.HasPrefix(name, "data.tar."):
			s.archive = member
		}
	}
	if _, ok := members["debian-binary"]; !ok || control.From == nil || s.archive.From == nil {
		return s, damaged(whole.Name, "it lacks debian-binary, control.tar or data.tar")
	}
	if err := s.readControl(ctx, control); err != nil {
		return s, err
	}
	if s.name == "" || s.version == "" {
		return s, damaged(whole.Name, "its control file has no Package or no Version")
	}
	return s, nil
}

// readControl reads the files of control.tar.
func (s *software) readControl(ctx context.Context, control unpack.Archive) error {
	content, err := control.Scan(ctx)
	if err != nil {
		return err
	}
	for _, name := range controlFiles {
		if _, ok := content.Files[name]; !ok {
			continue
		}
		text, err := content.ReadFile(ctx, name, maxControl)
		if err != nil {
			return err
		}
		switch name {
		case "control":
			s.control(string(text))
		case "conffiles":
			for line := range strings.Lines(string(text)) {
				if file := strings.TrimSpace(line); path.IsAbs(file) {
					s.configs = append(s.configs, strings.TrimLeft(path.Clean(file), "/"))
				}
			}
		default:
			s.scripts = append(s.scripts, script{name, string(text)})
		}
	}
	return nil
}

// arMembers returns the members of an ar archive. Each has a header of 60 bytes: its name, four fields and its size.
func arMembers(whole unpack.Archive) (map[string]unpack.Archive, error) {
	const header, nameEnd, sizeAt, sizeEnd = 60, 16, 48, 58
	out := map[string]unpack.Archive{}
	for at := int64(len(arMagic)); at < whole.Size; {
		h := make([]byte, header)
		if _, err := whole.From.ReadAt(h, at); err != nil || string(h[sizeEnd:]) != "`\n" {
			return nil, damaged(whole.Name, "it has no header at byte "+strconv.FormatInt(at, 10))
		}
		name := strings.TrimRight(strings.TrimRight(string(h[:nameEnd]), " "), "/")
		size, err := strconv.ParseInt(strings.TrimRight(string(h[sizeAt:sizeEnd]), " "), 10, 64)
		at += header
		if err != nil || size < 0 || at+size > whole.Size {
			return nil, damaged(whole.Name, "its member "+strconv.Quote(name)+" is cut off")
		}
		if _, twice := out[name]; twice || len(out) == maxMembers {
			return nil, damaged(whole.Name, "it has a member "+strconv.Quote(name)+" twice, or too many")
		}
		out[name] = unpack.Archive{
			Name: whole.Name + ": " + name, From: io.NewSectionReader(whole.From, at, size), Size: size, Package: true,
		}
		at += size + size&1
	}
	return out, nil
}

// control reads the fields of a control file.
func (s *software) control(text string) {
	fields, last := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' {
			last = strings.ToLower(name)
			fields[last] = strings.TrimSpace(value)
		} else if last != "description" { // its first line is the summary
			fields[last] += " " + strings.TrimSpace(line)
		}
	}
	s.name, s.version = fields["package"], debVersion(fields["version"])
	s.arch, s.summary = fields["architecture"], fields["description"]
	for _, field := range []string{"pre-depends", "depends"} {
		s.needs = append(s.needs, list(fields[field])...)
	}
	for _, field := range []string{"conflicts", "breaks"} {
		s.conflicts = append(s.conflicts, list(fields[field])...)
	}
	s.tags = map[string]string{"package.name": s.name, "package.version": fields["version"]}
}

// list returns the parts of a list with commas.
func list(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// debVersion returns the version of an image for EPOCH:UPSTREAM-REVISION.
func debVersion(text string) string {
	if _, rest, ok := strings.Cut(text, ":"); ok {
		text = rest
	}
	if at := strings.LastIndex(text, "-"); at >= 0 {
		return imageVersion(text[:at], text[at+1:])
	}
	return imageVersion(text, "")
}

func damaged(file, why string) error {
	return fault.Refusef(fault.Invalid, code.BadArchive, "%s is truncated, damaged or no package: %s", file, why).
		Try("another copy of the file")
}
