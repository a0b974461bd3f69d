package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// programHead is how much of a program is read to know its form.
const programHead = 256

// machines lists what code an architecture runs: its own, and that of its 32-bit sibling.
var machines = map[string][]elf.Machine{
	"386":     {elf.EM_386},
	"amd64":   {elf.EM_X86_64, elf.EM_386},
	"arm":     {elf.EM_ARM},
	"arm64":   {elf.EM_AARCH64, elf.EM_ARM},
	"loong64": {elf.EM_LOONGARCH},
	"ppc64le": {elf.EM_PPC64},
	"riscv64": {elf.EM_RISCV},
	"s390x":   {elf.EM_S390},
}

// startsMachO are the first bytes of programs of macOS: of one machine, or of several.
var startsMachO = [][]byte{
	{0xfe, 0xed, 0xfa, 0xce}, {0xfe, 0xed, 0xfa, 0xcf}, {0xce, 0xfa, 0xed, 0xfe}, {0xcf, 0xfa, 0xed, 0xfe},
	{0xca, 0xfe, 0xba, 0xbe},
}

// unfit returns why no server of a platform can start a program that begins with these bytes; empty when nothing in
// them tells.
func unfit(on *serverv1.Platform, first []byte) string {
	isMachO := slices.ContainsFunc(startsMachO, func(m []byte) bool { return bytes.HasPrefix(first, m) })
	switch {
	case bytes.HasPrefix(first, []byte("\xEF\xBB\xBF#!")):
		return "begins with a byte order mark, so that its first line names no interpreter; save it without one"
	case bytes.HasPrefix(first, []byte("#!")):
		line, _, _ := strings.Cut(string(first), "\n")
		if strings.Contains(line, "\r") {
			return fmt.Sprintf("has the line end CR LF, so that its interpreter is %q; save it with the line end LF",
				strings.TrimSpace(line[2:strings.Index(line, "\r")])+"\r")
		}
	case bytes.HasPrefix(first, []byte("MZ")):
		return "is a program for Windows"
	case isMachO && on.GetOs() != "darwin":
		return "is a program for macOS"
	case bytes.HasPrefix(first, []byte(elf.ELFMAG)) && len(first) >= 20:
		return unfitELF(on, first)
	}
	return ""
}

// unfitELF is unfit for a program in the form ELF, by its machine.
func unfitELF(on *serverv1.Platform, first []byte) string {
	if on.GetOs() == "darwin" {
		return "is a program in the form ELF, which macOS does not run"
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if elf.Data(first[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	have := elf.Machine(order.Uint16(first[18:]))
	if slices.Contains(machines[on.GetArch()], have) {
		return ""
	}
	for arch, of := range machines {
		if of[0] == have {
			return "is a program for " + arch
		}
	}
	return "is a program for the machine " + have.String()
}

// head returns the first bytes of a file.
func head(f io.ReaderAt) []byte {
	first := make([]byte, programHead)
	n, _ := f.ReadAt(first, 0) // a file that cannot be read is refused elsewhere
	return first[:n]
}

// checkProgram adds a command that no server of the platform can start.
func checkProgram(faults *manifest.Faults, root *os.Root, on *serverv1.Platform, field, command string) {
	f, err := openRegular(root, filepath.FromSlash(command))
	if err != nil {
		faults.Add(field, code.NoCommand, "%s %q %s", field, command, unreadable(err))
		return
	}
	defer func() { _ = f.Close() }()
	if why := unfit(on, head(f)); why != "" {
		faults.Add(field, code.UnfitProgram, "%s %q of the image for %s/%s %s", field, command, on.GetOs(),
			on.GetArch(), why)
	}
}
