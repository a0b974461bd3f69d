package image

import (
	"archive/tar"
	"fmt"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/format"
)

// fileFormat numbers the image file. Its numbers stand in the first tar header, as the
// names of the owner and the group, which readers from before there were numbers pass over.
var fileFormat = format.Spec{Kind: "image file", Now: 1, Floor: 1}

const (
	formatPrefix = "format-"
	floorPrefix  = "floor-"
)

// numbers writes a stamp as the names in a tar header.
func numbers(s format.Stamp) (uname, gname string) {
	return formatPrefix + strconv.FormatUint(uint64(s.Format),
		10), floorPrefix + strconv.FormatUint(uint64(s.Floor), 10)
}

// checkFormat refuses a file whose first header has numbers that this program does not know.
func checkFormat(path string, h *tar.Header) error {
	have, err := parseNumber(h.Uname, formatPrefix)
	if err != nil {
		return err
	}
	floor, err := parseNumber(h.Gname, floorPrefix)
	if err != nil {
		return err
	}
	return fileFormat.Check(path, format.Stamp{Format: have, Floor: floor})
}

// parseNumber reads a number behind a prefix; 0 without one.
func parseNumber(text, prefix string) (uint32, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(rest, 10, 32)
	if err != nil {
		return 0, refuse(code.NotAnImage, "%q in its header is not a number", fmt.Sprintf("%.40s", text))
	}
	return uint32(n), nil
}
