// Package durable has what a file needs to outlive its process, and to have one
// writer, in the words of each operating system.
package durable

import "errors"

// ErrLocked is returned for a file that another process, or another opening of it in
// this one, has locked.
var ErrLocked = errors.New("another process has it")
