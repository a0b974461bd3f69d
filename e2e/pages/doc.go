// Package pages keeps the commands in the documentation true.
//
// It reads the code blocks and the inline code of a Markdown page:
//
//  1. The blocks that are fenced as sh are one session: a shell runs them from the top of the page to its end, with
//     the programs under test.
//  2. In all other blocks, which need several machines, systemd or a container, and in inline code, each command line
//     of a program of Garrison is compared with the help that the program prints: each command, each flag and each
//     target of make must exist.
//
// A fence of another language than sh, such as yaml, holds no commands.
package pages
