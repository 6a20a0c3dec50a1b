//go:build !linux

package main

// machineMemory is not known here.
func machineMemory() (bytes uint64, known bool) { return 0, false }

// freeMemory is not known here.
func freeMemory() (bytes uint64, known bool) { return 0, false }
