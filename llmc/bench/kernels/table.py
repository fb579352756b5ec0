"""The table that `llmc bench --kernels` prints."""


def head(row, precision="fp32") -> str:
    """The lines above a table with this first row."""
    if "us" not in row:
        columns = f"{'sectors':>10} {'of ideal':>9} {'of needed':>10} {'conflicts':>10} {'barriers':>9} {'error':>9}"
        return f"on the emulator; barriers are counted for one block\n{'kernel':<31} {columns}  shape"
    numbers = {"fp32": "float32", "tf32": "TF32"}.get(precision, precision)
    about = f"{row['device']}: a copy moves {row['copy_gb_s']:,.0f} GB/s, the library's {numbers} product reaches"
    columns = f"{'µs':>10} {'GB/s':>7} {'TFLOP/s':>8} {'limit':>8} {'share':>6}"
    columns += f" {'PyTorch µs':>11}" * ("peer_us" in row) + f" {'error':>9}"
    return f"{about} {row['sgemm_tflop_s']:.1f} TFLOP/s\n{'kernel':<31} {columns}  shape"


def line(row) -> str:
    """A row of the table."""
    about = f"{row['error']:9.1e}  {row['shape']}" + "  WRONG" * (not row["right"])
    about += f" ({', '.join(row['problems'])})" if "problems" in row else ""
    about += "" if row.get("repeats", True) else "  different bits in each run"
    if "us" in row:
        rate = f"{row['us']:10.1f} {row['gb_s']:7.0f} {row['tflop_s']:8.2f} {row['limit']:>8} {row['share']:6.0%}"
        rate += f" {row['peer_us']:11.1f}" if "peer_us" in row else ""
        return f"{row['kernel']:<31} {rate} {about}"
    factors = f"{row['over_ideal']:8.3g}× {row['over_needed']:9.3g}×"
    counts = f"{row['sectors']:10,} {factors} {row['bank_conflicts']:10,} {row['barriers']:9.3g}"
    return f"{row['kernel']:<31} {counts} {about}"
