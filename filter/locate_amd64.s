//go:build !purego

#include "go_asm.h"
#include "textflag.h"

DATA golden<>+0(SB)/8, $0x9e3779b97f4a7c15
GLOBL golden<>(SB), RODATA|NOPTR, $8

// func locate(lines []line, hashes []Hash, linesPerKey int, to *spots)
TEXT ·locate(SB), NOSPLIT, $0-64
	MOVQ  lines_base+0(FP), BX
	MOVQ  lines_len+8(FP), R8
	MOVQ  hashes_base+24(FP), SI
	MOVQ  hashes_len+32(FP), CX
	MOVQ  to+56(FP), DI
	MOVQ  $0xff51afd7ed558ccd, R10
	MOVQ  $0xc4ceb9fe1a85ec53, R11
	MOVQ  $0xbf58476d1ce4e5b9, R12
	MOVQ  $0x94d049bb133111eb, R13
	TESTQ CX, CX
	JZ    done

hash:
	MOVQ (SI), R15
	MOVQ linesPerKey+48(FP), R9

line:
	// linePick
	ADDQ  golden<>(SB), R15
	MOVQ  R15, AX
	SHRQ  $33, AX
	XORQ  R15, AX
	IMULQ R10, AX
	MOVQ  AX, DX
	SHRQ  $33, DX
	XORQ  DX, AX
	IMULQ R11, AX
	MOVQ  AX, DX
	SHRQ  $33, DX
	XORQ  DX, AX

	// cellPick
	MOVQ  AX, DX
	SHRQ  $30, DX
	XORQ  AX, DX
	IMULQ R12, DX
	MOVQ  DX, R14
	SHRQ  $27, R14
	XORQ  DX, R14
	IMULQ R13, R14
	MOVQ  R14, DX
	SHRQ  $31, DX
	XORQ  DX, R14
	MOVQ  R14, spots_cells(DI)

	// lineOf
	MULQ       R8
	MOVQ       DX, spots_lines(DI)
	SHLQ       $6, DX
	PREFETCHT0 (BX)(DX*1)
	ADDQ       $8, DI
	DECQ       R9
	JNZ        line
	ADDQ       $8, SI
	DECQ       CX
	JNZ        hash

done:
	RET
