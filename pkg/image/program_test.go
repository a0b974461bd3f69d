package image_test

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
)

// program is the head of a program in the form ELF.
func program(m elf.Machine, data elf.Data, order binary.ByteOrder) string {
	head := make([]byte, 64)
	copy(head, elf.ELFMAG)
	head[elf.EI_DATA] = byte(data)
	order.PutUint16(head[18:], uint16(m))
	return string(head)
}

var (
	little = program(elf.EM_AARCH64, elf.ELFDATA2LSB, binary.LittleEndian)
	sparc  = program(elf.EM_SPARCV9, elf.ELFDATA2MSB, binary.BigEndian)
	x86    = program(elf.EM_X86_64, elf.ELFDATA2LSB, binary.LittleEndian)
	old    = program(elf.EM_386, elf.ELFDATA2LSB, binary.LittleEndian)
)

const linux = "agent: a\nversion: 1.0.0\nkind: daemon\nos: linux\narch: amd64\nrun:\n  command: run\n"

func TestACommandThatNoServerCanStartIsRefused(t *testing.T) {
	t.Parallel()
	darwin := strings.Replace(linux, "linux", "darwin", 1)
	refusals := map[string]refusal{}
	for name, c := range map[string]struct{ recipe, text, says string }{
		"another machine":       {linux, little, `"run" of the image for linux/amd64 is a program for arm64`},
		"an unknown machine":    {linux, sparc, "EM_SPARCV9"},
		"Windows":               {linux, "MZ\x90\x00", "is a program for Windows"},
		"macOS":                 {linux, "\xcf\xfa\xed\xfe", "is a program for macOS"},
		"ELF on macOS":          {darwin, x86, "which macOS does not run"},
		"a line of Windows":     {linux, "#!/bin/sh\r\nexit\r\n", `its interpreter is "/bin/sh\r"`},
		"a byte order mark":     {linux, "\xEF\xBB\xBF#!/bin/sh\n", "byte order mark"},
		"a health check of one": {linux + "  ready: {exec: {command: check}}\n", x86, `exec.command "check" of`},
	} {
		files := map[string]entry{"run": {text: c.text, mode: 0o100}, "check": {text: little, mode: 0o100}}
		refusals[name] = refusal{c.recipe, files, code.UnfitProgram, c.says}
	}
	refuseBuilds(t, refusals)
}

func TestAProgramOfTheMachineOrItsSmallerSiblingIsBuilt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{x86, old, "#!/bin/sh\nexit\r\n", "anything", ""} {
		build(t, image.BuildOptions{Dir: tree(t, map[string]entry{
			"garrison.yaml": {text: linux}, "run": {text: text, mode: 0o100},
		})})
	}
}

// noted builds a directory and returns what was notes of it.
func noted(t *testing.T, dir string) string {
	t.Helper()
	var notes []string
	build(t, image.BuildOptions{Dir: dir, Note: func(text string) { notes = append(notes, text) }})
	return strings.Join(notes, "\n")
}

func TestRightsThatAnImageDropsAreNoted(t *testing.T) {
	t.Parallel()
	files := map[string]entry{
		"garrison.yaml": {text: linux}, "run": {text: "#!/bin/sh\n", mode: 0o100},
		"ping": {text: "x", mode: 0o100}, "other": {text: little, mode: 0o100}, "notes": {text: little},
	}
	for n := range 8 {
		files[fmt.Sprintf("tools/%d", n)] = entry{text: "#!/bin/sh\r\n", mode: 0o100}
	}
	dir := tree(t, files)
	if err := os.Chmod(filepath.Join(dir, "run"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"run has the setuid or setgid bit", "run.sandbox.capabilities", "other is a program for arm64",
		"tools/4 has the line end CR LF", "3 more files: each has the line end CR LF",
	}
	capability := make([]byte, 20) // none of them, in the second form
	binary.LittleEndian.PutUint32(capability, 0x02000000)
	if err := unix.Setxattr(filepath.Join(dir, "ping"), "security.capability", capability, 0); err == nil {
		want = append(want, "ping has file capabilities")
	} else {
		t.Logf("file capabilities are not tried: %v", err)
	}
	notes := noted(t, dir)
	for _, each := range want {
		if !strings.Contains(notes, each) {
			t.Errorf("notes\n%s\nwant %q in it", notes, each)
		}
	}
	for _, never := range []string{"tools/5", "notes is"} {
		if strings.Contains(notes, never) {
			t.Errorf("notes\n%s\nwant no %q in it", notes, never)
		}
	}
}

func TestARevisionThatComesBeforeItsVersionIsNoted(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"6.0.14-1":         "version 6.0.14-1 comes before 6.0.14: ",
		"6.0.14-1ubuntu2":  "a revision that comes after it is 6.0.14_1ubuntu2",
		"6.0.14-rc.1":      "",
		"6.0.14+1":         "",
		"6.0.14_1":         "",
		"6.0.14-0.gitabcd": "6.0.14_0.gitabcd",
	} {
		dir := tree(t, map[string]entry{
			"garrison.yaml": {text: strings.Replace(linux, "1.0.0", version, 1)}, "run": {text: "x", mode: 0o100},
		})
		if notes := noted(t, dir); !strings.Contains(notes, want) || (notes == "") != (want == "") {
			t.Errorf("%s: notes %q, want %q in it", version, notes, want)
		}
	}
}
